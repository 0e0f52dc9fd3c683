"""Two small shops of our own, to try an agent on: retail and airline, in memory, with twenty customers each.

Every `open_shop` gives a fresh one. Their back ends check what a back end does (ids exist, arguments fit, sums are
right) and nothing of the policy: what breaks a rule reaches the database unless a gate stops it. So an overdrawn gift
card shows a negative balance, and an overbooked cabin negative seats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledgeragent.errors import BadInput
from ledgeragent.jsonio import digest, parse
from ledgeragent.policies import SCHEMAS
from ledgeragent.shops import airline, retail
from ledgeragent.shops.backend import Backend, Function
from ledgeragent.toolset import Toolset

__all__ = ["SHOPS", "Shop", "open_shop"]

_HERE: Final = Path(__file__).parent
_Stock = Callable[[Mapping[str, Any]], dict[str, Any]]
_KINDS: Final[Mapping[str, tuple[_Stock, Mapping[str, Function]]]] = {
    "airline": (airline.stocked, airline.FUNCTIONS),
    "retail": (retail.stocked, retail.FUNCTIONS),
}
SHOPS: Final = tuple(_KINDS)
"""The names of the shops; each is the name of its domain too."""


@dataclass(frozen=True)
class Shop:
    """One shop, open.

    Attributes:
        name: of the shop and of its domain.
        tools: every tool of the domain, run against `data`; `ToolRefused` is a definite no that changed nothing.
        policy: the rules an agent needs, as its system prompt.
        now: the clock of its data, RFC 3339 with an offset.
        data: the live database, by kind of record and id.
    """

    name: str
    tools: Toolset
    policy: str
    now: str
    data: dict[str, Any]

    def digest(self) -> str:
        """Digest of the database as it stands, as `sha256:<hex>`: equal end states have equal digests."""
        return digest(self.data)


def open_shop(name: str) -> Shop:
    """Open a shop with its goods and customers as they are at first.

    Args:
        name: `retail` or `airline`.

    Raises:
        BadInput: when there is no such shop.
    """
    if name not in _KINDS:
        raise BadInput(f"no shop {name[:80]!r}; there: {', '.join(SHOPS)}")
    stocked, functions = _KINDS[name]
    data = stocked(_read(_HERE / f"{name}.json"))
    declared = _read(SCHEMAS / name / "tools.json")
    backend = Backend(data, functions, declared["tools"])
    policy = (_HERE / f"{name}.md").read_text(encoding="utf-8")
    return Shop(name, Toolset.from_openai(declared["tools"], backend.run), policy, declared["now"], data)


def _read(path: Path) -> Any:
    return parse(path.read_text(encoding="utf-8"), what=path.name)
