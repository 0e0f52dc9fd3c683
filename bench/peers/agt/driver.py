"""agent-governance-toolkit: its PolicyEvaluator with the OPA back end, over a server and over the command line.

The context is a free dictionary, handed to Rego as `input`; the facts are one more entry of it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agent_os.policies import PolicyEvaluator
from agent_os.policies.backends import OPABackend
from lines import Case, Decide, Verdict, serve

POLICY = Path(sys.argv[2]) / "policy.rego"
EVALUATORS = {"server": PolicyEvaluator(), "process": PolicyEvaluator()}
EVALUATORS["server"].add_backend(OPABackend(mode="remote", opa_url=os.environ["OPA_URL"], package="agentos"))
EVALUATORS["process"].add_backend(OPABackend(mode="local", rego_path=str(POLICY), package="agentos"))


async def prepare(variant: str, case: Case) -> Decide:
    evaluator = EVALUATORS[variant]

    async def decide() -> Verdict:
        context = {
            "agent_id": "shop",
            "tool_name": case["tool"],
            "arguments": case["arguments"],
            "state": case["state"],
        }
        decision = evaluator.evaluate(context)
        return decision.allowed, decision.reason

    return decide


serve(prepare, ["agent-governance-toolkit-core"])
