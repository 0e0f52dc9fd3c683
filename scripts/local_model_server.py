"""An OpenAI-compatible server for one small local model that calls tools, on loopback.

    python scripts/local_model_server.py MODEL.gguf [--port N] [--context TOKENS] [--threads N]

For the environment `scripts/local-model` builds (llama-cpp-python's server), not for LedgerAgent's own. The server has
a tool format of its own, but it drops what tools return, and seed and length; and the template in the model file spends
a thousand tokens on seven tools. So tools are shown here as signatures, which a small model follows as well, and what
it writes is read back into calls. One request at a time; a prompt that begins like the last one costs only the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

FORMAT: Final = "ledgeragent-tools"
_TEMPLATE: Final = "chat_template.default"
_AFTER_CALL: Final = "}}\n"
_LONGEST: Final = 400
"""Tokens of an answer, where the request says nothing: on two cores that is a minute."""
_HOW: Final = """\
To use a tool, answer with one JSON object and nothing else:
{"name": <tool>, "arguments": {<argument>: <value>}}
Its result is the next message. When you need no tool, answer in plain words."""


def as_rendered(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The conversation as turns that take turns: tools, calls and returns written out as text."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "user" if message["role"] == "tool" else message["role"]
        # A second user message in a row is taken for the start of something else: continued, or answered.
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += f"\n\n{_text(message)}"
        else:
            turns.append({"role": role, "content": _text(message)})
    if not tools:
        return turns
    if not turns or turns[0]["role"] != "system":
        turns.insert(0, {"role": "system", "content": "You are a helpful assistant."})
    shown = "\n".join(_signature(tool["function"]) for tool in tools)
    turns[0]["content"] = f"{turns[0]['content']}\n\nTools:\n{shown}\n{_HOW}"
    return turns


def _text(message: Mapping[str, Any]) -> str:
    if message["role"] == "tool":
        return f"<tool_response>\n{message['content']}\n</tool_response>"
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    written = [f'{{"name": {json.dumps(call["name"])}, "arguments": {call["arguments"]}}}' for call in calls]
    return "\n".join(part for part in (message.get("content"), *written) if part)


def _signature(tool: Mapping[str, Any]) -> str:
    properties = tool.get("parameters", {}).get("properties", {})
    names = [f"{name}[]" if about.get("type") == "array" else name for name, about in properties.items()]
    return f"- {tool['name']}({', '.join(names)}): {tool.get('description', '')}"


def whole(text: str) -> str:
    """The text with the end of its call, which the server leaves out when it stops there."""
    braces = text.count("{") - text.count("}")
    return text + "}" * braces if braces == len(_AFTER_CALL.strip()) else text


def calls_in(text: str, tools: Sequence[str]) -> tuple[str, list[tuple[str, str]]]:
    """Split what the model wrote into words and calls.

    A small model does not keep to a form: it explains itself first, fences the JSON, or puts it between tags. A JSON
    object that names a known tool is a call wherever it stands; the words before the first are the text, and what
    follows the last, mostly a result made up, is dropped.

    Args:
        text: as it was written.
        tools: names of the tools it was offered.

    Returns:
        The text, and (name, arguments as JSON text) for each call.
    """
    calls, before, at = [], len(text), text.find("{")
    while at >= 0:
        call, end = _call_at(text, at, tools)
        if call is not None:
            calls.append(call)
            before = min(before, at)
        at = text.find("{", end)
    if not calls:
        return text.strip(), []
    return text[:before].removesuffix("```json\n").removesuffix("<tool_call>\n").strip(), calls


def _call_at(text: str, at: int, tools: Sequence[str]) -> tuple[tuple[str, str] | None, int]:
    """The call whose JSON begins at a brace, if it is one, and where to look on."""
    try:
        value, end = json.JSONDecoder().raw_decode(text, at)
    except ValueError:
        return None, at + 1
    if not isinstance(value, dict) or value.get("name") not in tools:
        return None, end
    return (value["name"], json.dumps(value.get("arguments", {}), ensure_ascii=False)), end


def with_calls(completion: dict[str, Any], tools: Sequence[str]) -> dict[str, Any]:
    """A completion whose text has become text and tool calls."""
    choice = completion["choices"][0]
    text, calls = calls_in(choice["message"]["content"] or "", tools)
    choice["message"] = {"role": "assistant", "content": text}
    if calls:
        choice["finish_reason"] = "tool_calls"
        choice["message"]["tool_calls"] = [
            {
                "id": f"call_{secrets.token_hex(6)}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for name, arguments in calls
        ]
    return completion


def as_stream(completion: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The completion as a stream of one delta, its end, and the usage."""
    choice = completion["choices"][0]
    frame = {key: completion[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    calls = [{**call, "index": number} for number, call in enumerate(choice["message"].get("tool_calls", ()))]
    delta = {**choice["message"], **({"tool_calls": calls} if calls else {})}
    yield {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield {**frame, "choices": [], "usage": completion["usage"]}


def answer(*, llama: Any, messages: Any, tools: Any = None, stream: bool = False, **options: Any) -> Any:
    """The chat handler the server calls."""
    offered = tools or ()
    # Ids have to be repeated to the letter: a penalty on repetition garbles them. After a call a small model goes on
    # with a result made up and the next call: it is stopped there.
    options |= {"repeat_penalty": 1.0, "tool_choice": None, "stop": [_AFTER_CALL] if offered else None}
    options["max_tokens"] = options.get("max_tokens") or _LONGEST
    render = llama._chat_handlers[_TEMPLATE]
    completion = render(llama=llama, messages=as_rendered(messages, offered), tools=None, stream=False, **options)
    message = completion["choices"][0]["message"]
    message["content"] = whole(message["content"] or "")
    completion = with_calls(completion, [tool["function"]["name"] for tool in offered])
    return as_stream(completion) if stream else completion


def main() -> None:
    """Serve until interrupted."""
    import uvicorn
    from llama_cpp import llama_chat_format
    from llama_cpp.server.app import create_app
    from llama_cpp.server.settings import ModelSettings, ServerSettings

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--context", type=int, default=8192)
    # Threads wait for each other at every step: one that has to share its core holds up all the others.
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    about = parser.parse_args()
    llama_chat_format.register_chat_completion_handler(FORMAT)(answer)
    model = ModelSettings(
        model=about.model,
        model_alias="local",
        chat_format=FORMAT,
        n_ctx=about.context,
        n_batch=512,
        n_threads=about.threads,
        n_threads_batch=about.threads,
        logits_all=False,
        verbose=False,
    )
    server = ServerSettings(host="127.0.0.1", port=about.port, interrupt_requests=False)
    app = create_app(server_settings=server, model_settings=[model])
    uvicorn.run(app, host="127.0.0.1", port=about.port, log_level="warning")


if __name__ == "__main__":
    main()
