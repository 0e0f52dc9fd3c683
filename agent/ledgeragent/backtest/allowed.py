"""The changes of verdict that somebody meant, as patterns: what is named here is no surprise.

PREDICATE@TOOL:OLD->NEW      every part may be left out; `*`, `?` and `[…]` as in file names

retail.order_pending                         whatever this predicate changes
retail.order_pending:block->allow            only where a blocked call is now allowed
@cancel_*                                    whatever changes for these tools
retail.*@cancel_pending_order:revise->*      all three together
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Self

from ledgeragent.errors import BadInput

VERDICTS: Final = ("allow", "revise", "block", "unjudged")
_GLOB: Final = r"[A-Za-z0-9_.*?\[\]!-]+"
_PATTERN: Final = re.compile(
    rf"(?P<predicate>{_GLOB})?(?:@(?P<tool>{_GLOB}))?(?::(?P<old>[a-z*]+)->(?P<new>[a-z*]+))?\Z"
)


@dataclass(frozen=True)
class AllowedChange:
    """One pattern.

    Attributes:
        text: as it was written.
        predicate: glob of the predicate's id.
        tool: glob of the tool's name.
        old, new: the verdicts, or `*`.
    """

    text: str
    predicate: str
    tool: str
    old: str
    new: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a pattern.

        Raises:
            BadInput: when it is none.
        """
        found = _PATTERN.match(text)
        if not text or found is None:
            raise BadInput(
                f"--allow-change {text!r}: write PREDICATE@TOOL:OLD->NEW, with any part left out, for example "
                "'retail.order_pending:block->allow' or '@cancel_*'"
            )
        parts = {name: value or "*" for name, value in found.groupdict().items()}
        for verdict in (parts["old"], parts["new"]):
            if verdict != "*" and verdict not in VERDICTS:
                raise BadInput(f"--allow-change {text!r}: {verdict!r} is none of {', '.join(VERDICTS)} and *")
        return cls(text, parts["predicate"], parts["tool"], parts["old"], parts["new"])

    def fits(self, predicate: str, tool: str, old: str, new: str) -> bool:
        """Whether a predicate's part in a change is what this names."""
        return (
            fnmatchcase(predicate, self.predicate)
            and fnmatchcase(tool, self.tool)
            and self.old in ("*", old)
            and self.new in ("*", new)
        )


def allowing(
    patterns: Sequence[AllowedChange], predicates: Collection[str], tool: str, old: str, new: str
) -> list[AllowedChange] | None:
    """The patterns that allow a changed call, or None.

    A call is allowed to change only if every predicate that took part in it is: what one explains, another may not.
    """
    found: dict[str, AllowedChange] = {}
    for predicate in predicates:
        fitting = [one for one in patterns if one.fits(predicate, tool, old, new)]
        if not fitting:
            return None
        found.update((one.text, one) for one in fitting)
    return list(found.values()) if predicates else None
