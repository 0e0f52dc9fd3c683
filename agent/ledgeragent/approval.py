"""Consent: what a person is asked before a call may run, what they sign, and which grants a host takes.

A violated predicate can state an obligation (`gate/grants`): somebody's approval, or the user's confirmation of exactly
this call. A review that nothing else speaks against then carries an `ApprovalRequest`. Whoever consents makes a grant
of it with a `Signer`; the host's `Approvals` verify the grant and the gate weighs it. How the request gets to a person
and the grant back is left to the host.

Two algorithms: Ed25519, where an approval service signs and the host, which has the public keys only, cannot make a
grant itself (needs `cryptography`, the extra `encrypted`); and HMAC-SHA256 for grants that the host makes anyway, such
as a user's confirmation, and for trying things out. Which one a key is for is said by the host's keys file, never by
the grant.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError

from ledgeragent.contracts import (
    APPROVAL_REQUEST,
    GRANT,
    ApprovalRequest,
    Asked,
    Consent,
    Contract,
    Decision,
    Expiry,
    FactShown,
    Grant,
    Name,
    Obligation,
    SignedGrant,
    described,
)
from ledgeragent.errors import BadInput
from ledgeragent.jsonio import canonical, check, copied, digest, parse
from ledgeragent.ledger import Provenance
from ledgeragent.paths import NOTHING, is_prefix
from ledgeragent.paths import Path as Keys
from ledgeragent.records import wall_clock

__all__ = ["ApprovalKey", "Approvals", "Approve", "KeysFile", "Signer", "asked", "facts_digest", "parse_grant"]

Approve = Callable[[ApprovalRequest], SignedGrant | Sequence[SignedGrant] | None]
"""Asks a person, or looks up what they said meanwhile; gives the grant, one of each kind where both are asked for, or
None."""

KEYS: Final = "ledgeragent.approval-keys/1"
MIN_SECRET_BYTES: Final = 32
_MAX_SECONDS: Final = 3600
_SECONDS: Final = 900
_DONE: Final[Mapping[Consent, str]] = {"approval": "approved", "user_confirmation": "confirmed"}
_MISSING: Final = "Ed25519 keys need the package `cryptography`: install ledgeragent[encrypted]"


class ApprovalKey(Contract):
    """A key whose grants a host takes."""

    id: Name
    kind: Consent
    """The only kind of grant that it may sign."""
    algorithm: Literal["ed25519", "hmac-sha256"]
    key: Name
    """Base64: the 32 bytes of the public key, or the shared secret (then whoever reads this file can make grants)."""
    approvers: list[Name]
    """In whose names it may sign approvals. For users' confirmations empty: the session knows who the user is."""


class KeysFile(Contract):
    """The keys whose grants a host takes."""

    contract: Literal["ledgeragent.approval-keys/1"]
    keys: list[ApprovalKey]


# What a person is asked ------------------------------------------------------------------------------------------


def facts_digest(gate_input: Mapping[str, Any]) -> str:
    """Digest of what a decision looked at, besides the call: what a grant is bound to.

    It covers the slice that the tool `needs`, the stale paths in it, and in order the earlier writes that ran, may have
    run or are about to. A read outside the slice, or one that finds the same values again, leaves it as it is; another
    value, a fact gone stale or a write in between does not.
    """
    writes = [[one["tool"], one["arguments"]] for one in (*gate_input["history"], *gate_input["siblings"])]
    return digest([gate_input["ledger"], gate_input["stale"], writes])


def asked(gate_input: Mapping[str, Any], decision: Decision, read: Mapping[Keys, Provenance]) -> ApprovalRequest | None:
    """What somebody must consent to for a rejected call; None when consent would not be enough.

    Args:
        gate_input: what was judged.
        decision: the rejection.
        read: where the records at hand came from.
    """
    enforced = [one for one in decision.findings if one.mode == "enforce"]
    still_open = {one.predicate: one for one in decision.obligations if one.grant is None}
    session, arguments = gate_input["session"], gate_input["action"]["arguments"]
    # Whatever a policy server makes up: nobody consents to what is no call.
    if not enforced or session["principal"] is None or not isinstance(arguments, Mapping):
        return None
    if any(one.predicate not in still_open for one in enforced):
        return None
    paths = sorted({tuple(path) for one in enforced for path in one.paths})
    return ApprovalRequest(
        contract=APPROVAL_REQUEST,
        request=gate_input["request"],
        domain=gate_input["domain"],
        session=session["id"],
        now=session["now"],
        requester=session["principal"]["id"],
        tool=gate_input["action"]["tool"],
        arguments=copied(arguments),
        obligations=[
            Asked(
                kind=still_open[one.predicate].kind,
                predicate=one.predicate,
                approvers=still_open[one.predicate].approvers,
                message=one.message,
            )
            for one in enforced
        ],
        facts=facts_digest(gate_input),
        evidence=[one for path in paths for one in _shown(path, gate_input["ledger"], read)],
    )


def consents(decision: Decision | None, grants: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """By whose consent findings are lifted, in words, by predicate.

    Args:
        decision: as it was accepted or recorded.
        grants: those of its gate input.
    """
    names = {one["id"]: one["approver"] for one in grants}
    fulfilled = [one for one in decision.obligations if one.grant is not None] if decision is not None else []
    return {one.predicate: f"{_DONE[one.kind]} by {names.get(one.grant, 'somebody')}" for one in fulfilled}


def wanting(decision: Decision | None) -> dict[str, str]:
    """Whose consent would lift findings, in words, by predicate."""
    still_open = [one for one in decision.obligations if one.grant is None] if decision is not None else []
    return {one.predicate: _wanted(one) for one in still_open}


def _wanted(one: Obligation) -> str:
    if one.kind == "user_confirmation":
        return "the user's confirmation"
    if one.approvers is None:
        return "somebody's approval"
    return f"an approval by {' or '.join(one.approvers)}" if one.approvers else "an approval, which nobody may give"


def _shown(path: Keys, ledger: Mapping[str, Any], read: Mapping[Keys, Provenance]) -> Iterator[FactShown]:
    value: Any = ledger
    for key in path:
        value = value.get(key, NOTHING) if isinstance(value, Mapping) else NOTHING
    source = next((of for record, of in read.items() if is_prefix(record, path)), None)
    if value is not NOTHING and source is not None:
        yield FactShown(path=list(path), value=copied(value), tool=source.tool, turn=source.turn, at=source.at)


# Who consents ----------------------------------------------------------------------------------------------------


class Signer:
    """Signs grants with one key. It belongs to whoever consents, or who asks them; never to the agent."""

    def __init__(self, key_id: str, sign: Callable[[bytes], bytes]) -> None:
        """Sign with any function; see the two ways to make one of a key.

        Args:
            key_id: the key's id in the host's keys file.
            sign: gives the signature of a text.
        """
        self.key_id = key_id
        self._sign = sign

    @classmethod
    def hmac(cls, key_id: str, secret: bytes) -> Signer:
        """Sign with a secret that the host shares.

        Raises:
            BadInput: when it has fewer than 32 bytes.
        """
        if len(secret) < MIN_SECRET_BYTES:
            raise BadInput(f"the secret has {len(secret)} bytes; give at least {MIN_SECRET_BYTES} random ones")
        return cls(key_id, lambda text: hmac.digest(secret, text, hashlib.sha256))

    @classmethod
    def ed25519(cls, key_id: str, private: bytes) -> Signer:
        """Sign with an Ed25519 key of which the host has only the public half.

        Args:
            key_id: the key's id in the host's keys file.
            private: the private key, 32 bytes.

        Raises:
            BadInput: when it is none, or `cryptography` is not installed.
        """
        keys = _ed25519()
        try:
            key = keys.Ed25519PrivateKey.from_private_bytes(private)
        except ValueError:
            raise BadInput("an Ed25519 private key has 32 bytes") from None
        return cls(key_id, key.sign)

    def grant(
        self, request: ApprovalRequest, approver: str, *, kind: Consent = "approval", seconds: int = _SECONDS
    ) -> SignedGrant:
        """Consent to a call, once the person has seen what the request says.

        Args:
            request: what was asked; the grant is worth nothing for anything else.
            approver: who consents; for a `user_confirmation` the request's `requester`.
            kind: the grant lifts the findings that ask for this kind.
            seconds: how long it is in force, by the session's clock and by the wall clock.

        Raises:
            BadInput: when the request asks for no consent of this kind, or `seconds` is not positive.
        """
        predicates = sorted(one.predicate for one in request.obligations if one.kind == kind)
        if not predicates or seconds < 1:
            raise BadInput(f"the request asks for no {kind}" if not predicates else "a grant is in force for a second")
        grant = Grant(
            id=secrets.token_hex(16),
            kind=kind,
            predicates=predicates,
            domain=request.domain,
            session=request.session,
            tool=request.tool,
            arguments=copied(request.arguments),
            facts=request.facts,
            approver=approver,
            issued=request.now,
            expires=Expiry(session=_later(request.now, seconds), host=_later(wall_clock(), seconds)),
        )
        return self.sign(grant)

    def sign(self, grant: Grant) -> SignedGrant:
        """Sign a grant as it is.

        Raises:
            BadInput: when its arguments are not what canonical JSON has a form for.
        """
        signature = base64.b64encode(self._sign(_text(grant))).decode("ascii")
        return SignedGrant(contract=GRANT, grant=grant, key=self.key_id, signature=signature)


def parse_grant(text: str) -> SignedGrant:
    """A signed grant as JSON text has it.

    Raises:
        BadInput: when it is none; nothing in it is verified by this.
    """
    document = parse(text, what="a grant")
    try:
        return SignedGrant.model_validate(document)
    except ValidationError as error:
        raise BadInput(f"not a signed grant: {described(error)}") from None


def _text(grant: Grant) -> bytes:
    """What is signed: no other contract's text can pass for it."""
    document = grant.model_dump()
    check(document, what="a grant")
    return f"{GRANT}\n{canonical(document)}".encode("ascii")


def _later(instant: str, seconds: int) -> str:
    return (datetime.fromisoformat(instant) + timedelta(seconds=seconds)).isoformat()


# What a host takes -----------------------------------------------------------------------------------------------


class Approvals:
    """Which grants a host takes: of these keys, for this long at most. Thread-safe; serves any number of sessions."""

    def __init__(
        self,
        keys: Sequence[ApprovalKey],
        *,
        agents: Collection[str] = (),
        max_seconds: int = _MAX_SECONDS,
        clock: Callable[[], str] = wall_clock,
    ) -> None:
        """Read the keys.

        Args:
            keys: the keys that verify grants.
            agents: names that agents run under: none of them can approve.
            max_seconds: a grant that is in force for longer is not taken.
            clock: the wall clock, RFC 3339 with an offset.

        Raises:
            BadInput: when a key is none, its id is there twice, or it signs approvals in nobody's name.
        """
        self._keys = {one.id: one for one in keys}
        if len(self._keys) != len(keys):
            raise BadInput("two approval keys have one id")
        self._verifiers = {one.id: _verifier(one) for one in keys}
        self._agents = frozenset(agents)
        self._max = timedelta(seconds=max_seconds)
        self._clock = clock

    @classmethod
    def load(cls, path: Path, **about: Any) -> Approvals:
        """Read a keys file (`ledgeragent.approval-keys/1`); further arguments as for the class.

        Raises:
            BadInput: when it cannot be read or does not fit.
        """
        try:
            document = parse(path.read_text(encoding="utf-8"), what=str(path))
            file = KeysFile.model_validate(document)
        except (OSError, UnicodeError) as error:
            raise BadInput(f"no approval keys: {path}: {error}") from None
        except ValidationError as error:
            raise BadInput(f"{path}: not a file of approval keys: {described(error)}") from None
        return cls(file.keys, **about)

    def problem(self, signed: SignedGrant, gate_input: Mapping[str, Any]) -> str | None:
        """Why a grant is not taken for a call; None when it is. That it was not used before is the session's to know.

        Args:
            signed: the grant.
            gate_input: the call, as it is about to be judged.
        """
        grant = signed.grant
        key = self._keys.get(signed.key)
        if key is None or not self._verifies(signed):
            return "its signature is none of a key that this host takes"
        if grant.kind != key.kind:
            return f"its key may not sign a grant of the kind {grant.kind}"
        return self._who(grant, key, gate_input) or _what(grant, gate_input) or self._when(grant, gate_input)

    def _verifies(self, signed: SignedGrant) -> bool:
        try:
            signature = base64.b64decode(signed.signature, validate=True)
            return self._verifiers[signed.key](_text(signed.grant), signature)
        except (BadInput, ValueError):
            return False

    def _who(self, grant: Grant, key: ApprovalKey, gate_input: Mapping[str, Any]) -> str | None:
        principal = gate_input["session"]["principal"]
        if principal is None:
            return "nobody knows who asks for it: the session has no principal"
        if grant.approver in self._agents:
            return "an agent cannot consent"
        if grant.kind == "user_confirmation":
            return None if grant.approver == principal["id"] else "somebody else than the user confirmed"
        if grant.approver not in key.approvers:
            return "its key may not sign in the approver's name"
        return "who asks cannot approve" if grant.approver == principal["id"] else None

    def _when(self, grant: Grant, gate_input: Mapping[str, Any]) -> str | None:
        try:
            now, wall = (datetime.fromisoformat(one) for one in (gate_input["session"]["now"], self._clock()))
            issued = datetime.fromisoformat(grant.issued)
            session, host = (datetime.fromisoformat(one) for one in (grant.expires.session, grant.expires.host))
        except ValueError:  # no day of the calendar
            return "it names a time that there is not"
        if session - issued > self._max or host - wall > self._max:
            return f"it is in force for longer than {self._max.total_seconds():g} s"
        if issued > now:
            return "it was issued later than now"
        return "it has expired" if session <= now or host <= wall else None


def _what(grant: Grant, gate_input: Mapping[str, Any]) -> str | None:
    action = gate_input["action"]
    if (grant.domain, grant.session) != (gate_input["domain"], gate_input["session"]["id"]):
        return "it is for another session"
    if grant.tool != action["tool"] or canonical(grant.arguments) != canonical(action["arguments"]):
        return "it is for another call"
    return None if grant.facts == facts_digest(gate_input) else "what the call was judged by has changed since"


def _verifier(key: ApprovalKey) -> Callable[[bytes, bytes], bool]:
    if (key.kind == "approval") != bool(key.approvers):
        raise BadInput(f"approval key {key.id!r}: name approvers for a key of approvals, and none for confirmations")
    try:
        raw = base64.b64decode(key.key, validate=True)
    except ValueError:
        raise BadInput(f"approval key {key.id!r} is not base64") from None
    if key.algorithm == "hmac-sha256":
        if len(raw) < MIN_SECRET_BYTES:
            raise BadInput(f"approval key {key.id!r} has {len(raw)} bytes; give {MIN_SECRET_BYTES} random ones or more")
        return lambda text, signature: hmac.compare_digest(hmac.digest(raw, text, hashlib.sha256), signature)
    return _ed25519_verifier(key.id, raw)


def _ed25519_verifier(key_id: str, raw: bytes) -> Callable[[bytes, bytes], bool]:
    keys = _ed25519()
    from cryptography.exceptions import InvalidSignature

    try:
        public = keys.Ed25519PublicKey.from_public_bytes(raw)
    except ValueError:
        raise BadInput(f"approval key {key_id!r} is no Ed25519 public key of 32 bytes") from None

    def verifies(text: bytes, signature: bytes) -> bool:
        try:
            public.verify(signature, text)
        except InvalidSignature:
            return False
        return True

    return verifies


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise BadInput(_MISSING) from None
    return ed25519
