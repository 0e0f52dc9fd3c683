"""What the sidecar adds to a review: the same calls on a session in process and on one behind HTTP, alternating.

    python bench/sidecar.py

Both sessions have the same gate over the embedded engine, and facts of the retail desk; the sidecar is a process of its
own on loopback, asked over one kept-alive connection. A *write* is review, redeem and report: in process, and three
requests over HTTP. Milliseconds, median and 95th percentile of 300; the ratio is that of the medians, in one run.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests")]

from ledgeragent import Call, Domain, Gate, Session, open_engine  # noqa: E402
from support import retail  # noqa: E402

TIMES: Final = 300
REVIEW: Final = ("cancel_pending_order", {"order_id": "#W1", "reason": "changed my mind"})
WRITE: Final = ("modify_user_address", {"user_id": retail.USER, **retail.ADDRESS})


class Client:
    """One kept-alive connection to a sidecar."""

    def __init__(self, url: str, token: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.path = "/v1/sessions"

    def post(self, what: str, **body: Any) -> Any:
        data = json.dumps({"now": retail.NOW, **body}).encode()
        self._connection.request("POST", self.path + what, data, self._headers)
        answer = self._connection.getresponse()
        parsed = json.loads(answer.read())
        if answer.status >= 300:
            sys.exit(str(parsed))
        return parsed

    def learn(self) -> None:
        """Open a session and read what `retail.learn` reads."""
        self.path = f"/v1/sessions/{self.post('', domain='retail')['session']}"
        for tool, arguments, content in (
            ("find_user_id_by_email", {"email": retail.EMAIL}, retail.USER),
            ("get_user_details", {"user_id": retail.USER}, json.dumps(retail.PROFILE)),
            ("get_order_details", {"order_id": "#W1"}, json.dumps(retail.PENDING)),
        ):
            issued = self.post("/reads", tool=tool, arguments=arguments)
            self.post("/observations", call_id=issued["call_id"], content=content)


def main() -> int:
    token = secrets.token_hex(16)
    command = [sys.executable, "-m", "ledgeragent", "serve", "--domain", "retail", "--engine", "embedded"]
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"],
        env=os.environ | {"LEDGERAGENT_SERVE_TOKEN": token},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        url = process.stderr.readline().split()[-1]
        with open_engine("embedded") as engine:
            gate = Gate(Domain.load("retail"), engine)
            print("| | in process | over HTTP | added | ratio |\n|---|---|---|---|---|")
            print(row("review, revise", gate, Client(url, token), reviewed_here, reviewed_there))
            print(row("write, from review to outcome", gate, Client(url, token), written_here, written_there))
    finally:
        process.terminate()
        process.wait(30)
    return 0


def row(
    name: str, gate: Gate, client: Client, here: Callable[[Session, int], None], there: Callable[[Client, int], None]
) -> str:
    """One line of the table. Sessions are new every 50 rounds, so that histories stay short."""
    own: list[float] = []
    remote: list[float] = []
    for number in range(TIMES):
        if number % 50 == 0:
            client.path = "/v1/sessions"
            client.learn()
            session = retail.desk(gate)
            here(session, -1)
            there(client, -1)
        own.append(took(lambda session=session, number=number: here(session, number)))
        remote.append(took(lambda number=number: there(client, number)))
    added = statistics.median(remote) - statistics.median(own)
    ratio = statistics.median(remote) / statistics.median(own)
    return f"| {name} | {shown(own)} | {shown(remote)} | {added:.1f} | {ratio:.1f} |"


def shown(times: list[float]) -> str:
    return f"{statistics.median(times):.1f}, {statistics.quantiles(times, n=20)[-1]:.1f}"


def took(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def reviewed_here(session: Session, _: int) -> None:
    session.next_turn()
    session.review([Call(*REVIEW)])


def reviewed_there(client: Client, _: int) -> None:
    client.post("/reviews", calls=[{"tool": REVIEW[0], "arguments": REVIEW[1]}])


def arguments_of(number: int) -> dict[str, Any]:
    """Another address each time: the same write again would be refused."""
    return {**WRITE[1], "address2": f"Apartment {number}"}


def written_here(session: Session, number: int) -> None:
    session.next_turn()
    [review] = session.review([Call(WRITE[0], arguments_of(number))])
    if review.ticket is None:
        sys.exit(review.message)
    session.execute(review.ticket, lambda *_: "done")


def written_there(client: Client, number: int) -> None:
    [review] = client.post("/reviews", calls=[{"tool": WRITE[0], "arguments": arguments_of(number)}])["reviews"]
    client.post("/redemptions", ticket=review["ticket"])
    client.post("/outcomes", ticket=review["ticket"], outcome="executed", content="done")


if __name__ == "__main__":
    raise SystemExit(main())
