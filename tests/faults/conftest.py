"""What the fault campaign shares: faulty OPAs, certificates, and the table of every case with its outcome."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from faults import bundles
from faults.opa_process import OpaProcess
from ledgeragent.policies import REGO

ROWS: list[Row] = []


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    case: str
    engine: str
    outcome: str
    seconds: float
    after: str


Report = Callable[..., None]


@pytest.fixture
def report() -> Report:
    """Adds a line to the table: case, engine, outcome, the longest wait in seconds, and what came after the fault."""
    return lambda case, engine, outcome, seconds=0.0, after="": ROWS.append(Row(case, engine, outcome, seconds, after))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table."""
    if not ROWS:
        return
    terminalreporter.section("fault campaign: no write ran")
    width = max(len(row.case) for row in ROWS)
    for row in ROWS:
        took = f"{row.seconds:5.2f} s" if row.seconds else " " * 7
        terminalreporter.write_line(
            f"{row.case:{width}}  {row.engine:9}  {took}  {row.outcome:40}  {row.after}".rstrip()
        )


class Opas(dict[str, OpaProcess]):
    """Real OPAs over sound and unsound bundles, each started when it is first wanted."""

    def __init__(self, binary: Path, folders: pytest.TempPathFactory) -> None:
        self._binary = binary
        self._folders = folders

    def __missing__(self, name: str) -> OpaProcess:
        makes = {"faulty": bundles.faulty, "without": bundles.without_domain, "old": bundles.old, "lax": bundles.lax}
        root = REGO if name == "sound" else makes[name](self._folders.mktemp(name))
        self[name] = OpaProcess(self._binary, root)
        return self[name]


@pytest.fixture(scope="module")
def opas(opa_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opas]:
    """OPAs by what is wrong with them."""
    started = Opas(opa_binary, tmp_path_factory)
    yield started
    for opa in started.values():
        opa.kill()


class Certificates:
    """An authority, and certificates of it for a server and its clients, sound and unsound."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)
        self.client_certificate, self.client_key = folder / "client.pem", folder / "client.key"
        day = timedelta(days=1)
        now = datetime.now(UTC)
        self.good = self.server("127.0.0.1")
        self.wrong_name = self.server("another.example")
        self.expired = self.server("127.0.0.1", now - 2 * day, now - day)
        self.not_yet = self.server("127.0.0.1", now + day, now + 2 * day)
        self.asks = self.server("127.0.0.1")
        self.asks.verify_mode = ssl.CERT_REQUIRED
        self.authority.configure_trust(self.asks)

    def server(self, name: str, begins: datetime | None = None, ends: datetime | None = None) -> ssl.SSLContext:
        """What a server shows."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.authority.issue_cert(name, not_before=begins, not_after=ends).configure_cert(context)
        return context

    def client(self, expired: bool = False) -> tuple[Path, Path]:
        """(certificate, key) of a client; written over those of the last time."""
        now = datetime.now(UTC)
        ends = now - timedelta(hours=1) if expired else now + timedelta(days=1)
        issued = self.authority.issue_cert("client.example", not_before=now - timedelta(days=2), not_after=ends)
        issued.cert_chain_pems[0].write_to_path(self.client_certificate)
        issued.private_key_pem.write_to_path(self.client_key)
        return self.client_certificate, self.client_key


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """One authority for all."""
    return Certificates(tmp_path_factory.mktemp("certificates"))
