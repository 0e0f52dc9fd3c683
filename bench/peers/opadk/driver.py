"""opadk: its ADK plugin's `before_tool_callback`, over a server and over the command line.

The facts are in ADK's session state. The plugin also sends every event of the session, which in a real session hold
the same reads again; `server, no events` is a session that has none.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from lines import Case, Decide, Verdict, serve
from opadk import OPADKPlugin, OPARemoteClient, OPARunClient

SERVER = OPADKPlugin(opa_client=OPARemoteClient(server_url=os.environ["OPA_URL"]))
PROCESS = OPADKPlugin(opa_client=OPARunClient(opa_path=os.environ["OPA"], bundle_path=sys.argv[2]))
SERVICE = InMemorySessionService()


def modify_pending_order_items(
    order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
) -> str:
    """Replace items of a pending order."""
    return "done"


TOOL = FunctionTool(modify_pending_order_items)
AGENT = LlmAgent(name="shop", tools=[TOOL])


async def prepare(variant: str, case: Case) -> Decide:
    session = await SERVICE.create_session(app_name="shop", user_id="u1", state=case["state"])
    if variant != "server, no events":
        await read(session, case)
    invocation = InvocationContext(session_service=SERVICE, invocation_id="i1", agent=AGENT, session=session)
    context = ToolContext(invocation, function_call_id="c1")
    plugin = PROCESS if variant == "process" else SERVER

    async def decide() -> Verdict:
        answer = await plugin.before_tool_callback(tool_context=context, tool=TOOL, tool_args=case["arguments"])
        return answer is None, "" if answer is None else ", ".join(answer["reasons"])

    return decide


async def read(session: Session, case: Case) -> None:
    """The events by which ADK keeps the reads that filled the state."""
    for number, done in enumerate(case["reads"]):
        names = {"id": f"r{number}", "name": done["tool"]}
        called = types.Part(function_call=types.FunctionCall(args=done["arguments"], **names))
        returned = types.Part(function_response=types.FunctionResponse(response={"result": done["content"]}, **names))
        for part, role, author in ((called, "model", "shop"), (returned, "user", "shop")):
            content = types.Content(role=role, parts=[part])
            await SERVICE.append_event(session, Event(author=author, invocation_id="i1", content=content))


serve(prepare, ["opadk", "google-adk"])
