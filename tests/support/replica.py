"""One replica of a service as a process: serves the turns it is told to and says what came of each.

Run with the URL of a Redis and a file that is appended to by what a tool runs. Each line on standard input is a job:
`["hammer", session id, how often]` or `["serve", [[session id, order id], …]]`; each is answered with one line of counts.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from typing import Any

from redis import Redis

from ledgeragent import policies
from ledgeragent.domain import Domain
from ledgeragent.engine import Embedded, compiled_module
from ledgeragent.errors import LedgerAgentError, SessionBusy, SessionConflict
from ledgeragent.gate import Gate
from ledgeragent.sessions import Sessions
from ledgeragent.sessions.in_redis import RedisStore
from support import retail
from support.retail import NOW, cancel, read_order
from support.stored import KEY, key_of


class Replica:
    """A service with a gate."""

    def __init__(self, gate: Gate, url: str, file: str) -> None:
        self.sessions = Sessions(RedisStore.from_url(url, timeout=20), gate, keys=[KEY], lifetime=3600)
        self.redis = Redis.from_url(url, socket_timeout=20)
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def run(self, tool: str, arguments: dict[str, Any]) -> str:
        """The tool: what runs is in the file before anybody can say so."""
        os.write(self._file, (json.dumps([tool, arguments]) + "\n").encode())
        return "done"

    def hammer(self, session_id: str, times: int) -> Counter[str]:
        """Try again and again to cancel one order, and take the session from whoever is at work on it."""
        came_of: Counter[str] = Counter()
        for _ in range(times):
            self.redis.delete(key_of(session_id, "hold"))
            try:
                with self.sessions.turn(session_id, None, now=NOW) as turn:
                    read_order(turn.session)
                    [review] = turn.session.review([cancel()])
                    if review.ticket is not None:
                        turn.session.execute(review.ticket, self.run)
                came_of[review.verdict] += 1
            except LedgerAgentError as error:
                came_of[type(error).__name__] += 1
        return came_of

    def serve(self, turns: list[tuple[str, str]]) -> Counter[str]:
        """In each turn: read one order of one's own, and cancel it if that was not done before."""
        came_of: Counter[str] = Counter()
        waiting = list(turns)
        while waiting:
            session_id, order_id = waiting.pop(0)
            try:
                with self.sessions.turn(session_id, None, now=NOW) as turn:
                    turn.session.next_turn()
                    user = f"user_of_{session_id[1:]}"
                    retail.authenticate(turn.session, user, f"{session_id}@example.com")
                    read_order(turn.session, retail.order(order_id, "pending", user_id=user))
                    [review] = turn.session.review([cancel(order_id)])
                    if review.ticket is not None:
                        turn.session.execute(review.ticket, self.run)
                came_of[review.verdict] += 1
            except (SessionBusy, SessionConflict):
                waiting.append((session_id, order_id))
        return came_of


def main(url: str, file: str) -> None:
    """Do jobs until there are no more."""
    module = compiled_module(policies.REGO, policies.SCHEMAS, policies.COMPILED)
    replica = Replica(Gate(Domain.load("retail"), Embedded(module)), url, file)
    for line in sys.stdin:
        job, *about = json.loads(line)
        counted = replica.hammer(*about) if job == "hammer" else replica.serve(*about)
        sys.stdout.write(json.dumps(counted) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
