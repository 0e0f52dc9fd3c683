"""Heads of stored sessions: what a deployment's key vouches for.

A head names the session, the version, whether a turn is under way, and the digest of the body, under an HMAC-SHA-256.
Whoever can write to the store but has no key can therefore neither edit a session nor put one in another's place; what
is left to them is to delete, and to put back what was right once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationError

from ledgeragent.contracts import Contract, Name
from ledgeragent.errors import BadInput, SessionDamaged, shown_id
from ledgeragent.jsonio import canonical

HEAD: Final = "ledgeragent.session-head/1"
_KEY_BYTES: Final = 32
_MAC: Final = hashlib.sha256().digest_size * 2
_TOKEN: Final = re.compile(r"([1-9][0-9]{0,9})\.([0-9a-f]{64})")


class Head(Contract):
    """What is vouched for."""

    contract: Literal["ledgeragent.session-head/1"]
    session: Name
    version: Annotated[int, Field(ge=1, le=1_000_000_000)]
    turn: bool
    """Whether a turn is under way: if nobody is at work, its process was lost."""
    nonce: Name
    """Random: no two heads are the same, so a change that is found made was made by whoever looks."""
    body: Name
    """Digest of the body."""


@dataclass(frozen=True)
class Token:
    """The version that a service last saw: a number, and the code that no other version of that number has."""

    version: int
    mac: str

    @classmethod
    def parse(cls, text: str) -> Token:
        """Read a token.

        Raises:
            BadInput: when it is none.
        """
        found = _TOKEN.fullmatch(text)
        if found is None:
            raise BadInput("this is no token of a session; pass the one that the last turn gave, unchanged")
        return cls(int(found[1]), found[2])

    def __str__(self) -> str:
        return f"{self.version}.{self.mac}"


class Seal:
    """Signs with the first key and accepts all."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Take the deployment's keys.

        Args:
            keys: random, at least 32 bytes each; the first signs. To rotate, put the new key first everywhere once
                every replica accepts it, and drop the old one when no session signed with it is left.

        Raises:
            BadInput: when there is none, or one is too short.
        """
        if min(map(len, keys), default=0) < _KEY_BYTES:
            raise BadInput(f"sessions need at least one key, each of at least {_KEY_BYTES} random bytes")
        self._keys = tuple(keys)

    def close(self, session_id: str, version: int, *, turn: bool, body: str) -> bytes:
        """A head: its code, then what it vouches for.

        Args:
            session_id: whose.
            version: number of the version.
            turn: whether a turn is under way.
            body: digest of the body.
        """
        nonce = secrets.token_hex(16)
        head = Head(contract=HEAD, session=session_id, version=version, turn=turn, nonce=nonce, body=body)
        text = canonical(head.model_dump()).encode("ascii")
        return _code(self._keys[0], text) + text

    def open(self, sealed: bytes, session_id: str) -> Head:
        """Read a head.

        Raises:
            SessionDamaged: when no accepted key vouches for it, or it is another session's.
        """
        code, text = sealed[:_MAC], sealed[_MAC:]
        if not any(hmac.compare_digest(code, _code(key, text)) for key in self._keys):
            raise SessionDamaged(
                f"session {shown_id(session_id)}: none of the {len(self._keys)} accepted key(s) vouches for what is "
                f"stored: it was edited, or signed with a key that is not accepted any more; nothing of it is used"
            )
        try:
            head = Head.model_validate(json.loads(text))
        except (ValueError, ValidationError):
            raise SessionDamaged(
                f"session {shown_id(session_id)} was written under another contract than {HEAD}: another release of "
                f"LedgerAgent uses the same store and keys"
            ) from None
        if head.session != session_id:
            raise SessionDamaged(
                f"under session {shown_id(session_id)} another session is stored; nothing of it is used"
            )
        return head


def digest_of(body: bytes) -> str:
    """What a head says of its body."""
    return "sha256:" + hashlib.sha256(body).hexdigest()


def token_of(sealed: bytes, version: int) -> Token:
    """The token that stands for a version."""
    return Token(version, sealed[:_MAC].decode("ascii"))


def _code(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, HEAD.encode("ascii") + b"\0" + text, "sha256").hexdigest().encode("ascii")
