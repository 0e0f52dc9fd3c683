"""Many replicas on the same sessions, as threads and as processes: one wins, nothing runs twice, nothing is mixed up."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from redis import Redis

import ledgeragent
from ledgeragent.contracts import Principal
from ledgeragent.errors import LedgerAgentError, SessionBusy, SessionConflict, SessionError
from ledgeragent.gate import Gate
from ledgeragent.sessions import Sessions, Stored
from ledgeragent.sessions.in_redis import RedisStore
from ledgeragent.sessions.store import Change
from support.redis_server import RedisServer
from support.replica import Replica as Worker
from support.retail import NOW, admitted, cancel
from support.stored import Shop, history, key_of, opened

pytest_plugins = ["support.fixtures"]

Replica = Callable[..., Sessions]
WORKERS: Final = 4
PROCESSES: Final = 3


def all_at_once(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each came to, an error of our tree included; they start together."""
    start = threading.Barrier(len(works))

    def one(work: Callable[[], Any]) -> Any:
        start.wait(20)
        try:
            return work()
        except LedgerAgentError as error:
            return type(error)

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(one, works))


# Threads ---------------------------------------------------------------------------------------------------------


def test_of_all_who_begin_at_once_one_does(replica: Replica, session_id: str) -> None:
    replicas = [replica() for _ in range(WORKERS)]
    token = opened(replicas[0], session_id)
    for _ in range(10):
        began = all_at_once([partial(own._begin, session_id, token, NOW) for own in replicas])
        [(turn, _)] = [one for one in began if isinstance(one, tuple)]
        assert {one for one in began if not isinstance(one, tuple)} <= {SessionBusy}
        turn._let_go()
        token = turn.token


def test_each_version_is_written_by_one(redis: Redis, shared_redis: RedisServer, session_id: str) -> None:
    stores = [RedisStore.from_url(shared_redis.url) for _ in range(WORKERS)]
    stores[0].create(session_id, b"head 1", b"", 60.0)
    before = b"head 1"
    for version in range(2, 30):
        changes = [
            Change(before, b"head %d of %d" % (version, number), b"body", version, 60.0, 0.0)
            for number in range(WORKERS)
        ]
        done = all_at_once(
            [partial(store.save, session_id, change) for store, change in zip(stores, changes, strict=True)]
        )
        assert Counter(done) == {None: 1, SessionConflict: WORKERS - 1}
        before = changes[done.index(None)].head
        assert stores[0].load(session_id) == Stored(before, b"body", version, False)
    for store in stores:
        store.close()


def test_a_ticket_that_two_replicas_hold_runs_once(redis: Redis, replica: Replica, session_id: str) -> None:
    sessions, shop = replica(), Shop()
    with sessions.turn(session_id, opened(sessions, session_id), now=NOW) as turn:
        ticket = admitted(turn.session, cancel())

    def execute(own: Sessions) -> Any:
        while True:
            redis.delete(key_of(session_id, "hold"))  # as if all of them took too long
            try:
                with own.turn(session_id, None, now=NOW) as later:
                    return later.session.execute(ticket, shop)
            except SessionError:
                continue

    all_at_once([partial(execute, replica()) for _ in range(WORKERS)])
    assert shop.ran in ([], ["cancel_pending_order"])
    assert [outcome for _, outcome in history(sessions, session_id, None)] in (["executed"], ["uncertain"])


def test_replicas_that_take_a_session_from_each_other_repeat_nothing(
    redis: Redis, shared_redis: RedisServer, replica: Replica, gate: Gate, session_id: str, tmp_path: Path
) -> None:
    opened(replica(), session_id)
    workers = [Worker(gate, shared_redis.url, str(tmp_path / "ran")) for _ in range(WORKERS)]
    counted = all_at_once([partial(worker.hammer, session_id, 25) for worker in workers])
    assert sum(sum(one.values()) for one in counted) == 25 * WORKERS
    assert once_or_never(tmp_path / "ran", replica(), session_id)


# Processes -------------------------------------------------------------------------------------------------------


class Processes:
    """Replicas in processes of their own, which write to one file what they run."""

    def __init__(self, url: str, file: Path) -> None:
        self.file = file
        paths = os.pathsep.join([str(Path(ledgeragent.__file__).parents[1]), str(Path(__file__).parents[1])])
        self._started = [
            subprocess.Popen(
                [sys.executable, "-m", "support.replica", url, str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": paths},
            )
            for _ in range(PROCESSES)
        ]

    def do(self, *jobs: Any) -> list[Counter[str]]:
        """One job for each, all at once; what each counted."""
        self.file.write_text("")
        for one, job in zip(self._started, jobs, strict=True):
            assert one.stdin is not None
            one.stdin.write(json.dumps(job) + "\n")
            one.stdin.flush()
        return [Counter(json.loads(one.stdout.readline())) for one in self._started if one.stdout is not None]

    def close(self) -> None:
        """End them."""
        for one in self._started:
            one.kill()
            one.communicate()


@pytest.fixture(scope="module")
def processes(shared_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Replicas that are there for all tests, for it takes them some time to come up."""
    started = Processes(shared_redis.url, tmp_path_factory.mktemp("replicas") / "ran")
    yield started
    started.close()


def once_or_never(file: Path, sessions: Sessions, session_id: str) -> bool:
    """Whether the order was cancelled once, or at most once where the session says that it is not certain."""
    ran = file.read_text().splitlines() if file.exists() else []
    [(tool, outcome)] = history(sessions, session_id, None)
    assert tool == "cancel_pending_order"
    return len(ran) == 1 if outcome == "executed" else len(ran) <= 1


def test_processes_that_take_a_session_from_each_other_repeat_nothing(
    redis: Redis, processes: Processes, replica: Replica, session_id: str
) -> None:
    processes.do(*[["serve", []]] * PROCESSES)  # all are up
    opened(replica(), session_id)
    counted = processes.do(*[["hammer", session_id, 40]] * PROCESSES)
    assert [sum(one.values()) for one in counted] == [40] * PROCESSES
    assert {name for one in counted for name in one} <= {"allow", "revise", "block", "SessionBusy", "SessionConflict"}
    assert sum(one["SessionConflict"] for one in counted) > 0  # else nobody was overtaken and this shows nothing
    assert once_or_never(processes.file, replica(), session_id)


def test_fifty_sessions_on_several_workers_are_not_mixed_up(
    redis: Redis, processes: Processes, replica: Replica
) -> None:
    sessions = replica()
    names = [f"s{number}" for number in range(50)]
    for name in names:
        sessions.create(name, now=NOW)
    turns = [(name, f"#W{name[1:]}00{number}") for name in names for number in range(3)]
    random.Random(7).shuffle(turns)
    counted = processes.do(*[["serve", turns[number::PROCESSES]] for number in range(PROCESSES)])
    assert sum(counted, Counter()) == {"allow": len(turns)}
    for name in names:
        own = {order for session_id, order in turns if session_id == name}
        with sessions.turn(name, None, now=NOW) as turn:
            written = turn.session.to_json()["writes"]
            found = {(write["arguments"]["order_id"], write["outcome"]) for write in written}
            assert found == {(order, "executed") for order in own}
            assert (turn.session.turn, len(own)) == (3, 3)
            assert set(turn.session.ledger.tree()["orders"]) == own
            assert turn.session.principal == Principal(id=f"user_of_{name[1:]}", source="proof")
    ran = [json.loads(line)[1]["order_id"] for line in processes.file.read_text().splitlines()]
    assert sorted(ran) == sorted(order for _, order in turns)
