"""What a report may show: everything, or what the domain's allow-list leaves.

`Masked` replaces texts by stand-ins made with a key that lives as long as the command: the same text has the same
stand-in all over one page, and nobody can turn it back or compare it with another page's. Free words, what tools
returned and messages of findings are masked whole, because nothing says what they quote.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from ledgeragent.domain import Domain
from ledgeragent.marks import MASKED, Marks
from ledgeragent.masking import Masking
from ledgeragent.paths import Path
from ledgeragent.records import Record
from ledgeragent.redact import Pseudonyms

_NO_ARGUMENTS: Final[Marks] = {"each": {}, "keys": []}
_PATH: Final[Marks] = {"path": True}
_STAND_IN: Final = 26
_LEDGER_LEVEL: Final = 1


class Shown(Protocol):
    """Gives the form in which something may stand in the page."""

    def words(self, text: str) -> str:
        """What somebody said, a tool returned, or a message says."""

    def name(self, text: str) -> str:
        """An id that the recording gave."""

    def tool(self, domain: Domain, tool: str) -> str:
        """A tool's name: of an undeclared one, whatever the model wrote."""

    def arguments(self, domain: Domain, tool: str, arguments: Any) -> Any:
        """The arguments of a call."""

    def path(self, domain: Domain, path: Path) -> list[str]:
        """A path of the ledger."""

    def fact(self, domain: Domain, path: Path, value: Any) -> Any:
        """The value of a record of the ledger."""


class Everything:
    """Shows all there is."""

    def words(self, text: str) -> str:
        """As it is."""
        return text

    def name(self, text: str) -> str:
        """As it is."""
        return text

    def tool(self, domain: Domain, tool: str) -> str:  # noqa: ARG002 - the protocol's
        """As it is."""
        return tool

    def arguments(self, domain: Domain, tool: str, arguments: Any) -> Any:  # noqa: ARG002 - the protocol's
        """As they are."""
        return arguments

    def path(self, domain: Domain, path: Path) -> list[str]:  # noqa: ARG002 - the protocol's
        """As it is."""
        return list(path)

    def fact(self, domain: Domain, path: Path, value: Any) -> Any:  # noqa: ARG002 - the protocol's
        """As it is."""
        return value


class Masked:
    """Shows what the domains' allow-lists leave."""

    def __init__(self, key: bytes) -> None:
        """Prepare it.

        Args:
            key: at least 32 random bytes, kept nowhere.
        """
        self._key = key

    def words(self, text: str) -> str:
        """Masked, unless there is nothing."""
        return MASKED if text else text

    def name(self, text: str) -> str:
        """A stand-in."""
        mac = hmac.digest(self._key, b"ledgeragent report\0" + text.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return "~" + base64.b32encode(mac).decode().lower()[:_STAND_IN] if text else text

    def tool(self, domain: Domain, tool: str) -> str:
        """As it is where the domain declares it, else a stand-in."""
        return tool if tool in domain.tools else self.name(tool)

    def arguments(self, domain: Domain, tool: str, arguments: Any) -> Any:
        """What the tool's parameters allow."""
        marks = domain.log["tools"].get(tool, _NO_ARGUMENTS)
        return self._masking(domain).allowed(marks, arguments, level=_LEDGER_LEVEL)

    def path(self, domain: Domain, path: Path) -> list[str]:
        """Its keys as far as the ledger shows them."""
        found: list[str] = self._masking(domain).allowed(_PATH, list(path))
        return found

    def fact(self, domain: Domain, path: Path, value: Any) -> Any:
        """What the ledger's schema allows."""
        for key in reversed(path):
            value = {key: value}
        left = self._masking(domain).allowed(domain.log["input"]["fields"]["ledger"], value, level=_LEDGER_LEVEL)
        for _ in path:
            if not isinstance(left, Mapping) or len(left) != 1:
                return MASKED
            [left] = left.values()
        return left

    def record(self, domain: Domain | None, record: Record) -> Record:
        """A decision record with stand-ins, unless it is redacted already; an outcome's needs no domain."""
        if record.redacted is not None:
            return record
        return _Stands(*([domain] if domain is not None else []), key=self._key, name=self.name)(record)

    def _masking(self, domain: Domain) -> Masking:
        return Masking(domain.log, self.name)


class _Stands(Pseudonyms):
    """Records with the page's stand-ins, so that a text has one all over the page."""

    def __init__(self, *domains: Domain, key: bytes, name: Callable[[str], str]) -> None:
        super().__init__(*domains, key=key)
        self._name = name

    def stand_in(self, text: str) -> str:
        return self._name(text)
