"""The four arms of a comparison: the ledger in the prompt or not, the gate in force or not.

Everything else (prompt, tools, loop, counting) is the same in all of them. Running them is the business of whoever
compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Arm = Literal["fc", "ledger", "gate", "both"]


@dataclass(frozen=True)
class Switches:
    """What an arm turns on.

    Attributes:
        view: the model sees the ledger.
        gate: the gate is in force; otherwise a `ShadowGate` watches.
    """

    view: bool
    gate: bool


ARMS: Final[Mapping[Arm, Switches]] = {
    "fc": Switches(view=False, gate=False),
    "ledger": Switches(view=True, gate=False),
    "gate": Switches(view=False, gate=True),
    "both": Switches(view=True, gate=True),
}

AGENTS: Final[Mapping[Arm, str]] = {
    "fc": "ledger_agent_fc",
    "ledger": "ledger_agent_view",
    "gate": "ledger_agent_gate",
    "both": "ledger_agent",
}
"""The arms' names in the benchmark's registry and result files."""
