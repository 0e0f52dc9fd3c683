"""Which versions of Open Policy Agent the policies may be evaluated with.

One exact version (`PINNED`) compiles the module that is kept in the repository and runs in CI; any
supported one may evaluate. The policies and their tests need what 1.10 brought; 1.20.0 and 1.21.0 are left
out.
"""

from __future__ import annotations

import re
from typing import Final

from ledgeragent.errors import EnginePolicies

PINNED: Final = "1.22.3"
OLDEST: Final = (1, 10, 0)
EXCLUDED: Final = frozenset({(1, 20, 0), (1, 21, 0)})

_PLAIN = re.compile(r"[0-9A-Za-z.+-]{0,40}")
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:[-+].*)?")


def check_version(version: str, where: str) -> None:
    """Refuse an OPA that is not supported.

    Args:
        version: as OPA prints it, for example "1.22.3".
        where: which OPA, for the message.

    Raises:
        EnginePolicies: the version is older than 1.10, is 1.20.0 or 1.21.0, or is no version at all.
    """
    match = _VERSION.fullmatch(version)
    numbers = tuple(int(part) for part in match.groups()[:3]) if match else None
    if numbers is None or numbers < OLDEST or numbers in EXCLUDED:
        told = repr(version) if _PLAIN.fullmatch(version) else "that is none"
        raise EnginePolicies(
            f"{where} is version {told}, which is not supported; use 1.10 or later, but not 1.20.0 or 1.21.0"
        )
