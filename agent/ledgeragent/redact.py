"""Forms in which records may be kept by those who may not keep everything: redacted, with pseudonyms, encrypted.

Each form is made of the domains' allow-lists and turns a record into one that shows only what these name. What became
of the rest, and whether the record can still be judged again, stands in the record's `redacted`. Writing records is
`records`' part, cryptography `sealing`'s.

    Redacted      the rest is masked: nothing of it can be had back
    Pseudonyms    texts are replaced by stand-ins: the same text by the same one, wherever it stands, in every record
                  made with the same key; numbers and booleans are masked
    Encrypted     as Redacted, and the record as it was is added, sealed for the holder of a private key
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from ledgeragent.contracts import Decision, DecisionRecord, OutcomeRecord, Redaction
from ledgeragent.domain import Domain, Validator, bare_schema
from ledgeragent.errors import BadInput, RecordError
from ledgeragent.jsonio import canonical, digest
from ledgeragent.marks import record_marks
from ledgeragent.masking import UNDECLARED, Masking
from ledgeragent.paths import Path
from ledgeragent.records import Record, parse_record
from ledgeragent.sealing import PrivateKey, PublicKey

MIN_KEY_BYTES: Final = 32
_STAND_IN: Final = 26
_ABOVE_INPUT: Final = -1
Form = Literal["redacted", "pseudonyms", "encrypted"]
_NOT_COMPARED: Final = {"request": True, "policy": True}
_WORDS: Final = {"findings": {"__all__": {"message"}}, "overrides": {"__all__": {"owner", "reason"}}}


class Redacted:
    """Masks what may not be logged."""

    def __init__(self, *domains: Domain) -> None:
        """Prepare the form.

        Args:
            domains: the domains whose records will come; a record of another one is refused.
        """
        self._domains = {domain.name: domain for domain in domains}

    def __call__(self, record: Record) -> Record:
        """The record with what may not be logged masked.

        Raises:
            RecordError: for a decision of a domain that was not named.
        """
        return self._masked(record, "redacted")

    def _masked(
        self, record: Record, form: Form, stand_in: Callable[[str], str] | None = None, key: str | None = None
    ) -> Record:
        masking = Masking(self._list(record), stand_in)
        everything = record.model_dump(mode="json", exclude={"redacted"})
        shown = masking.allowed(record_marks(masking.log), everything, level=_ABOVE_INPUT)
        redaction = Redaction(
            form=form,
            judged_again="when_opened" if form == "encrypted" else self._judged_again(record, shown, masking),
            masked=sorted(list(place) for place in masking.masked),
            pseudonyms=sorted(list(place) for place in masking.replaced),
            key=key,
            sealed=None,
        )
        return type(record).model_validate({**shown, "redacted": redaction})

    def _list(self, record: Record) -> Mapping[str, Any]:
        if isinstance(record, OutcomeRecord):
            return _NO_DOMAIN  # it holds ids only
        domain = self._domains.get(record.input.domain)
        if domain is None:
            known = ", ".join(sorted(self._domains)) or "none"
            raise RecordError(f"a record of domain {record.input.domain} cannot be redacted; domains given: {known}")
        return domain.log

    def _judged_again(
        self, record: Record, shown: Mapping[str, Any], masking: Masking
    ) -> Literal["exactly", "by_equality", "no"]:
        if isinstance(record, OutcomeRecord) or any(_decides(place) for place in masking.masked):
            return "no"
        if not any(_decides(place) for place in masking.replaced):
            return "exactly"
        if masking.shown_texts & masking.hidden_texts:
            return "no"  # a text that is shown here and has a stand-in there is no longer the same
        schema = self._parameters(record.input.domain, record.input.action.tool)
        asked = (record.input.action.arguments, shown["input"]["action"]["arguments"])
        fits = {schema.is_valid(arguments) for arguments in asked} if schema is not None else {True}
        return "by_equality" if len(fits) == 1 else "no"

    def _parameters(self, domain: str, tool: str) -> Any:
        declared = self._domains[domain].tools.get(tool)
        return Validator(bare_schema(declared.parameters)) if declared is not None else None


class Pseudonyms(Redacted):
    """Replaces texts that may not be logged by stand-ins, and masks the rest."""

    def __init__(self, *domains: Domain, key: bytes) -> None:
        """Prepare the form.

        Args:
            domains: as for `Redacted`.
            key: the deployment's secret, at least 32 random bytes. Whoever has it can tell whose a stand-in is.

        Raises:
            BadInput: when the key is too short.
        """
        if len(key) < MIN_KEY_BYTES:
            raise BadInput(f"the key for pseudonyms has {len(key)} bytes; give at least {MIN_KEY_BYTES} random ones")
        super().__init__(*domains)
        self._key = key
        self.key_id = hmac.digest(key, b"ledgeragent key id", hashlib.sha256).hex()[:16]

    def __call__(self, record: Record) -> Record:
        """The record with stand-ins; as `Redacted`."""
        return self._masked(record, "pseudonyms", self.stand_in, self.key_id)

    def stand_in(self, text: str) -> str:
        """The stand-in of a text under this key."""
        mac = hmac.digest(self._key, b"ledgeragent pseudonym\0" + text.encode(), hashlib.sha256)
        return "~" + base64.b32encode(mac).decode().lower()[:_STAND_IN]


class Encrypted(Redacted):
    """Masks what may not be logged, and adds the record as it was, sealed."""

    def __init__(self, *domains: Domain, key: PublicKey) -> None:
        """Prepare the form.

        Args:
            domains: as for `Redacted`.
            key: seals the originals; only the holder of its private key can open them.
        """
        super().__init__(*domains)
        self._key = key

    def __call__(self, record: Record) -> Record:
        """The redacted record with the sealed original; as `Redacted`."""
        shown = self._masked(record, "encrypted", key=self._key.id)
        original = record.model_copy(update={"previous": None})
        sealed = self._key.seal(canonical(original.model_dump(mode="json")), about=_about(shown))
        assert shown.redacted is not None
        return shown.model_copy(update={"redacted": shown.redacted.model_copy(update={"sealed": sealed})})


def opened(record: Record, key: PrivateKey) -> Record:
    """The record as it was, of an encrypted one.

    Args:
        record: any record; one that is not encrypted is given back as it is.
        key: the private key it was sealed for.

    Raises:
        BadInput: when it was sealed for another key, or it or the record around it was changed since.
    """
    if record.redacted is None or record.redacted.sealed is None:
        return record
    text = key.open(record.redacted.sealed, about=_about(record))
    return parse_record(text, place="what was sealed")


def _about(record: Record) -> str:
    """What the sealed original is bound to: all that is shown beside it, but for its place in a file."""
    return digest(record.model_dump(mode="json", exclude={"redacted": {"sealed"}, "previous": True}))


def agrees(record: DecisionRecord, decision: Decision) -> bool:
    """Whether a decision made again on a record's input is the recorded one, as far as the record can tell.

    Request and revision are not compared, nor, where the record is redacted, the words of messages: they quote values.
    """
    if record.decision is None:
        return False
    left_out: dict[str, Any] = {**_NOT_COMPARED, **(_WORDS if record.redacted is not None else {})}
    return record.decision.model_dump(exclude=left_out) == decision.model_dump(exclude=left_out)


def _decides(place: Path) -> bool:
    """Whether a policy could have looked at it; fields that no schema declares no policy can name."""
    return place[0] == "input" and place[-1] != UNDECLARED


_NO_DOMAIN: Final[Mapping[str, Any]] = {"input": {}, "decision": {}, "tools": {}}
