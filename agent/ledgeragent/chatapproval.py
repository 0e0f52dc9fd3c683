"""Consent in a terminal chat: the person at the keyboard, or a script, stands for those who are asked.

The keys live as long as the chat. In a service the approver signs elsewhere, with a key that the agent's host does not
have; here one process plays all parts.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich.text import Text

from ledgeragent.approval import MIN_SECRET_BYTES, ApprovalKey, Approvals, Signer
from ledgeragent.contracts import ApprovalRequest, Consent, SignedGrant
from ledgeragent.jsonio import readable
from ledgeragent.paths import dotted
from ledgeragent.terminal import Line

Ask = Callable[[ApprovalRequest, Consent], str | None]
"""Asks for a consent of this kind; the name of who gives it, or None."""

_KINDS: Final[tuple[Consent, ...]] = ("approval", "user_confirmation")


class Desk:
    """Where those sit who are asked."""

    def __init__(self, approvers: Sequence[str], ask: Ask) -> None:
        """Make the keys.

        Args:
            approvers: who can be asked for an approval; the customer confirms their own calls without being named.
            ask: gets their answers.
        """
        kinds = [kind for kind in _KINDS if approvers or kind == "user_confirmation"]
        secret = {kind: secrets.token_bytes(MIN_SECRET_BYTES) for kind in kinds}
        self._ask = ask
        self._signers = {kind: Signer.hmac(kind, own) for kind, own in secret.items()}
        self.approvals = Approvals(
            [
                ApprovalKey(
                    id=kind,
                    kind=kind,
                    algorithm="hmac-sha256",
                    key=base64.b64encode(own).decode(),
                    approvers=sorted(set(approvers)) if kind == "approval" else [],
                )
                for kind, own in secret.items()
            ]
        )

    def __call__(self, request: ApprovalRequest) -> list[SignedGrant]:
        """A grant of each kind that is asked for, or none at all."""
        grants = []
        for kind in _KINDS:
            if not any(one.kind == kind for one in request.obligations):
                continue
            name = self._ask(request, kind) if kind in self._signers else None
            if name is None:
                return []
            grants.append(self._signers[kind].grant(request, name, kind=kind))
        return grants


def shown(request: ApprovalRequest) -> Iterator[Line]:
    """What a person must see before they consent: nothing of it is cut short."""
    arguments = ", ".join(f"{name}={readable(value)}" for name, value in request.arguments.items())
    yield Line(Text.assemble(("consent wanted: ", "bold"), f"{request.tool}({arguments})"), 2)
    yield Line(Text.assemble(("asked for by ", "dim"), request.requester), 4)
    for one in request.obligations:
        yield Line(Text.assemble((f"{one.predicate}: ", "bold"), one.message), 4)
    for fact in request.evidence:
        read = (f"  read by {fact.tool}, turn {fact.turn}", "dim")
        yield Line(Text.assemble((dotted(tuple(fact.path)), "bold"), f" = {readable(fact.value)}", read), 6)


def answered(name: str | None, kind: Consent) -> Line:
    """What came of it."""
    done = "approves" if kind == "approval" else "confirms"
    return Line(
        Text(f"{name} {done}" if name is not None else "nobody consents", style="bold" if name else "yellow"), 2
    )
