"""The guide to stored sessions runs as it stands."""

from __future__ import annotations

import re
import secrets
from typing import Any, Final

import pytest
from redis import Redis

from ledgeragent.errors import SESSION_CODES, SessionError
from ledgeragent.gate import Gate
from ledgeragent.policies import REGO
from ledgeragent.sessions import Sessions
from ledgeragent.sessions.in_redis import RedisStore
from ledgeragent.toolset import Toolset
from support import retail
from support.redis_server import RedisServer
from support.retail import NOW
from support.scripted_model import ScriptedModel, calls, says
from support.stored import KEY, history, opened

pytest_plugins = ["support.fixtures"]

GUIDE: Final = (REGO.parent / "docs" / "operate" / "sessions.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)


def test_the_service_of_the_guide_serves_a_conversation(
    redis: Redis, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(name: str, arguments: dict[str, Any]) -> Any:
        ran.append(name)
        return {"find_user_id_by_email": retail.USER, "get_order_details": retail.PENDING}.get(name, "done")

    find = ("find_user_id_by_email", {"email": retail.EMAIL})
    read = ("get_order_details", {"order_id": "#W1"})
    cancel = ("cancel_pending_order", {"order_id": "#W1", "reason": "no longer needed"})
    service: dict[str, Any] = {
        "database": {},
        "clock": lambda: NOW,
        "tools": Toolset.from_openai([{"name": name} for name, _ in (find, read, cancel)], run),
        "model": ScriptedModel(
            calls(find),
            calls(read),
            says("It is pending."),
            calls(cancel),
            says("Done."),
            calls(cancel),
            says("It was."),
        ),
    }
    monkeypatch.setenv("SESSIONS_URL", shared_redis.url)
    monkeypatch.setenv("SESSIONS_KEY", secrets.token_hex(32))
    for block in blocks("python"):
        exec(compile(block, "sessions.md", "exec"), service)
    service["begin"]("talk")
    said = [service["serve"]("talk", text) for text in ("Where is #W1?", "Cancel it.", "Cancel it again.")]
    assert said == ["It is pending.", "Done.", "It was."]
    assert ran == [find[0], read[0], cancel[0]]


def test_the_rights_of_the_guide_are_enough_and_none_is_spare(
    redis: Redis, shared_redis: RedisServer, gate: Gate, session_id: str
) -> None:
    [rule] = [block for block in blocks("text") if block.startswith("user ")]
    words = rule.replace("PASSWORD", "secret").split()[2:]
    url = shared_redis.url.replace("redis://", "redis://sessions:secret@")

    def works(rights: list[str]) -> bool:
        redis.execute_command("ACL", "SETUSER", "sessions", "reset", *rights)
        redis.execute_command("CLIENT", "KILL", "USER", "sessions")
        sessions = Sessions(RedisStore.from_url(url), gate, keys=[KEY], lifetime=60, hold=5)
        own = f"{session_id} {len(rights)} {rights[-1]}"
        try:
            assert history(sessions, own, opened(sessions, own)) == []
            sessions.end(own, None)
        except SessionError:
            return False
        return True

    assert works(words)
    spare = [right for right in words if right.startswith("+") and works([one for one in words if one != right])]
    # Waiting is only for `replicas`; a client can do without a greeting.
    assert set(spare) <= {"+wait", "+hello"}
    redis.execute_command("ACL", "DELUSER", "sessions")


def test_the_guide_names_every_error() -> None:
    rows = dict(re.findall(r"^\| `(Session\w+)` `([\w.]+)` \|", GUIDE, flags=re.MULTILINE))
    assert rows == {kind.__name__: kind.code for kind in SessionError.__subclasses__()}
    assert sorted(rows.values()) == sorted(SESSION_CODES)
