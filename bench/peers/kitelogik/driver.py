"""kitelogik: its PolicyGate over OPAClient.

What it hands to Rego is the call and a session context of fixed fields; the facts can only travel as one more argument
of the call.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kitelogik import OPAClient, PolicyGate, SessionContext
from kitelogik.tether.models import ToolCallInput
from lines import Case, Decide, Verdict, serve

GATE = PolicyGate(opa_client=OPAClient(os.environ["OPA_URL"]))
CONTEXT = SessionContext(session_id="s1", user_role="support", session_scopes=["modify_order"])


async def prepare(_variant: str, case: Case) -> Decide:
    async def decide() -> Verdict:
        arguments = {**case["arguments"], "state": case["state"]}
        call = ToolCallInput(action=case["tool"], tool_name=case["tool"], args=arguments)
        decision = await GATE.evaluate_tool_call(call, CONTEXT)
        return decision.allow and not decision.deny, decision.reason

    return decide


serve(prepare, ["kitelogik"])
