"""The contracts other programs depend on, as models: gate input, decision, tools file, record.

`schemas/*.schema.json` are these models written as JSON Schema 2020-12 (`make compile` writes them, a test holds them
equal in text and in what they accept). Models are strict: nothing is coerced, nothing undeclared is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel, StringConstraints, ValidationError

GATE_INPUT: Final = "ledgeragent.gate-input/1"
DECISION: Final = "ledgeragent.decision/1"
TOOLS: Final = "ledgeragent.tools/1"
RECORD: Final = "ledgeragent.record/1"
APPROVAL_REQUEST: Final = "ledgeragent.approval-request/1"
GRANT: Final = "ledgeragent.grant/1"

Name = Annotated[str, StringConstraints(min_length=1)]
Path = Annotated[list[str], Field(min_length=1)]
DomainName = Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9_]*$")]
INSTANT: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
Instant = Annotated[str, StringConstraints(pattern=INSTANT)]
Date = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
Verdict = Literal["allow", "revise", "block"]
Rejection = Literal["revise", "block"]
Outcome = Literal["executed", "refused", "uncertain", "withheld"]
Consent = Literal["approval", "user_confirmation"]
"""What lifts a finding: somebody else approves the call, or the user confirms that they accept exactly this one."""


def is_instant(text: str) -> bool:
    """Whether a text is RFC 3339 with an offset."""
    return re.fullmatch(INSTANT.removesuffix("$"), text) is not None


class Contract(BaseModel):
    """Base of all contract models: strict, closed, immutable."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )


def described(error: ValidationError) -> str:
    """What is first wrong with a document, and where, without anything of the document itself: fit for a log."""
    first = error.errors(include_input=False, include_url=False)[0]
    known = {name for model in _models(Contract) for name in model.model_fields}
    parts = [part if isinstance(part, int) or part in known else "…" for part in first["loc"]]
    return f"{'.'.join(str(part) for part in parts) or 'the whole document'}: {first['msg']}"


def _models(base: type[Contract]) -> Iterator[type[Contract]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


class Principal(Contract):
    """Whose authority the session acts under."""

    id: Name
    """The principal's id, byte for byte as the records name it."""
    source: Literal["host", "proof", "claimed"]
    """Where it comes from: passed by the host, proved by an authentication read, or only claimed."""
    claims: dict[str, Any] = Field(default_factory=dict)
    """What the host knows about the principal beyond the id."""


class SessionState(Contract):
    """The session as the gate sees it."""

    id: Name
    now: Instant
    """The session's clock, RFC 3339, always with an offset. Policies never read the wall clock."""
    turn: Count
    principal: Principal | None
    rejections: Count
    """How often this very call was rejected since the ledger last changed."""


class Action(Contract):
    """The proposed call."""

    call_id: str
    tool: Name
    arguments: Any
    """The parsed arguments; a text that could not be parsed stands here as it is and never fits."""


class Sibling(Contract):
    """A write of the same model message that was admitted before this one."""

    tool: Name
    arguments: dict[str, Any]


class HistoryEntry(Contract):
    """An earlier write of the session; siblings of the proposed call are not repeated here."""

    tool: Name
    arguments: dict[str, Any]
    outcome: Literal["executed", "uncertain", "pending"]


class Expiry(Contract):
    """When a grant ends: by either clock, whichever is first."""

    session: Instant
    """By the session's clock; policies see no other."""
    host: Instant
    """By the wall clock, for a session's clock may stand still."""


class Grant(Contract):
    """A person's consent to one call, as the host verified it."""

    id: Name
    """Random; a session takes it once."""
    kind: Consent
    predicates: Annotated[list[Name], Field(min_length=1)]
    """The predicates whose findings it lifts, where they say that such a grant does."""
    domain: DomainName
    session: Name
    tool: Name
    arguments: dict[str, Any]
    """The parsed arguments, all of them: it is worth nothing for others."""
    facts: Name
    """Digest of what the decision looked at: the slice of the ledger, what is stale in it, and the earlier writes."""
    approver: Name
    """Who consents: for an approval anybody but the session's principal, for a user's confirmation nobody else."""
    issued: Instant
    """The session's clock when it was asked for."""
    expires: Expiry


class GateInput(Contract):
    """What a policy decision point is asked: `input` of `data.ledgeragent.<domain>.decision`."""

    contract: Literal["ledgeragent.gate-input/1"]
    request: Name
    """A random id that the decision must echo."""
    domain: DomainName
    session: SessionState
    action: Action
    ledger: dict[str, Any]
    """The slice of the ledger that the tool `needs`, without stale values."""
    stale: list[Path]
    """Paths whose values changed since they were read."""
    history: list[HistoryEntry]
    siblings: list[Sibling]
    grants: list[Grant]
    """Grants for this call, whose signature, facts and single use the host has checked."""


class MissingFact(Contract):
    """Evidence that is not to be had, and why."""

    path: Path
    cause: Literal["missing", "stale"]


class Finding(Contract):
    """What one predicate, or the gate itself, has against the call."""

    predicate: Name
    status: Literal["violated", "unknown"]
    verdict: Rejection
    mode: Literal["enforce", "shadow", "lifted"]
    """Only `enforce` counts. `lifted`: by the grant that its obligation names."""
    message: str
    """For the model: which rule, which values, what would comply."""
    paths: list[Path]
    """The evidence the predicate asked for."""
    missing: list[MissingFact]


class Obligation(Contract):
    """What lifts a violated predicate's finding, by the predicate's own rule."""

    kind: Consent
    predicate: Name
    approvers: list[Name] | None
    """The only ones whose consent counts; None: everybody whose grants the host takes."""
    grant: Name | None
    """The id of the grant that fulfils it; None while it is open."""


class OverrideShown(Contract):
    """An entry of `ledgeragent_overrides` that concerns this decision, applied or not."""

    target: Name
    """A predicate's id, or `settings.<key>`."""
    mode: str
    verdict: str
    owner: str
    reason: str
    expires: str
    applied: bool


class _Accounted(Contract):
    """What every entry of an overrides file says of itself."""

    owner: Name
    reason: Name
    expires: Date
    """The last day it is in force."""


class PredicateOverride(_Accounted):
    """A predicate put in shadow, switched off, or given another verdict."""

    mode: Literal["enforce", "shadow", "off"] | None = None
    verdict: Rejection | None = None


class SettingOverride(_Accounted):
    """Another value for one of the domain's settings."""

    value: Any


class DomainOverrides(Contract):
    """What a deployment changes in one domain."""

    sequence: Count = 0
    """The number of this version; a host never goes back to a lower one. 0: not numbered."""
    predicates: dict[Name, PredicateOverride] = Field(default_factory=dict)
    settings: dict[Name, SettingOverride] = Field(default_factory=dict)


class OverridesFile(RootModel[dict[DomainName, DomainOverrides]]):
    """The policy data `ledgeragent_overrides`, by domain."""

    model_config = ConfigDict(strict=True, frozen=True)


class Accountable(Contract):
    """Who answers for an exception or a demand, and why there is one."""

    owner: Name
    reason: Name


class Demand(Accountable):
    """Predicates that an organisation wants to see judge a tool."""

    predicates: Annotated[list[Name], Field(min_length=1)]


class DomainFloor(Contract):
    """What an organisation demands of one domain."""

    sequence: Count = 0
    """The number of this version; a host never goes back to a lower one. 0: not numbered."""
    tools: dict[Name, Demand] = Field(default_factory=dict)
    """By tool; `*` stands for every write."""
    settings: dict[Name, Accountable] = Field(default_factory=dict)
    """Settings that no deployment may replace."""


class FloorFile(RootModel[dict[DomainName, DomainFloor]]):
    """The policy data `ledgeragent_floor`, by domain."""

    model_config = ConfigDict(strict=True, frozen=True)


class Frozen(Accountable):
    """A tool that is stopped."""

    since: Date


class DomainFreeze(Contract):
    """What is stopped in one domain."""

    sequence: Count = 0
    """The number of this version; a host never goes back to a lower one. 0: not numbered."""
    tools: dict[Name, Frozen]
    """By tool; `*` stands for every write."""


class FreezeFile(RootModel[dict[DomainName, DomainFreeze]]):
    """The policy data `ledgeragent_freeze`, by domain."""

    model_config = ConfigDict(strict=True, frozen=True)


class SequenceShown(Contract):
    """The numbers of everything that decided and can be numbered; 0: not numbered, or not there."""

    domain: Count
    gate: Count
    overrides: Count
    floor: Count
    freeze: Count


class PolicyShown(Contract):
    """Which policies decided."""

    revision: Name
    """Digest of the domain's own part of the policies."""
    gate: Name
    """Digest of the shared gate and the common predicates."""
    sequence: SequenceShown


class Decision(Contract):
    """What the policy decision point answers. A closed schema: anything else is an error, and an error is a block."""

    contract: Literal["ledgeragent.decision/1"]
    request: str
    verdict: Verdict
    findings: list[Finding]
    """Worst first: block before revise, violated before unknown, then by id."""
    predicates: list[Name]
    """The ids that were judged, sorted."""
    overrides: list[OverrideShown]
    obligations: list[Obligation]
    """In the order of the findings; those without a grant are open."""
    policy: PolicyShown


def _only_false(value: Any) -> Any:
    # Python takes 0 for False; JSON does not.
    if value is not False:
        raise ValueError("must be false")
    return value


def _only_true(value: Any) -> Any:
    # Python takes 1 for True; JSON does not.
    if value is not None and value is not True and not isinstance(value, str):
        raise ValueError("must be true or a pattern")
    return value


class Parameters(Contract):
    """The closed subset of JSON Schema for arguments, which Rego checks without recursion (four levels)."""

    type: (
        Literal["string", "integer", "number", "boolean", "null", "array", "object"]
        | Annotated[
            list[Literal["string", "integer", "number", "boolean", "null", "array", "object"]], Field(min_length=1)
        ]
        | None
    ) = None
    description: str | None = None
    properties: dict[str, Parameters] | None = None
    required: list[str] | None = None
    additionalProperties: Annotated[Literal[False], BeforeValidator(_only_false)] | None = None
    items: Parameters | None = None
    enum: Annotated[list[str | int | float | bool | None], Field(min_length=1)] | None = None
    pattern: str | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    minLength: Count | None = None
    maxLength: Count | None = None
    minItems: Count | None = None
    maxItems: Count | None = None
    log: Annotated[Literal[True] | str | None, BeforeValidator(_only_true)] = Field(default=None, alias="x-log")
    """May be logged: `true` where type, enum or pattern say what it can be, else a pattern that what is logged fits."""


class When(Contract):
    """A condition on a fact: the filled-in template must match the whole pattern."""

    value: str
    pattern: str


class FactRule(Contract):
    """How a return of a read becomes facts."""

    path: Path
    """Template of the path it is stored under."""
    value: str
    """Template of the value: `{result}`, `{result.x}`, `{each.x}`, or a text with placeholders."""
    parse: str = "json"
    """`json`, `list` (JSON that must be a list), `text`, or `module:function` for prose (text in, JSON value out)."""
    mode: Literal["replace", "once", "union"] = "replace"
    each: str | None = None
    """Template of a list (or map): the rule applies to each element, named `each`."""
    when: When | None = None
    unless_seen: Annotated[list[str], Field(min_length=1)] | None = None
    """Arguments that identify a person: if a tool return of the session already held all of them, nothing is proved."""


class Settles(Contract):
    """Which missing facts a read would settle: a path with named keys, and the arguments made of them."""

    path: Path
    arguments: dict[str, str]


class ReadTool(Contract):
    """A tool that only looks; its successful returns become facts."""

    effect: Literal["read"]
    name: Name
    description: str
    parameters: Parameters
    facts: list[FactRule]
    settles: list[Settles] = Field(default_factory=list)


class WriteTool(Contract):
    """A tool that changes the environment: judged before it runs."""

    effect: Literal["write"]
    name: Name
    description: str
    parameters: Parameters
    guarded_by: list[Name]
    """Ids of the predicates that guard it, as the Rego enforces them."""
    needs: list[Path]
    """Templates of the ledger paths its predicates may look at."""
    changes: list[Path]
    """Templates of the fields that go stale when it runs."""
    unguarded: Accountable | None = None
    facts: list[FactRule] = Field(default_factory=list)
    """Used only where the domain sets `absorb_write_returns`."""


class EffectlessTool(Contract):
    """A tool that touches nothing the gate protects (a calculator, a hand-over)."""

    effect: Literal["none"]
    name: Name
    description: str
    parameters: Parameters
    owner: Name
    reason: Name


class ToolsFile(Contract):
    """`schemas/<domain>/tools.json`."""

    contract: Literal["ledgeragent.tools/1"]
    domain: DomainName
    title: Name
    now: Instant
    """The clock of recorded conversations that carry none."""
    principal: Literal["host", "proof", "claimed"]
    principal_path: Path
    """Where the authentication read stores the principal's id."""
    protected: list[Name] = Field(default_factory=list)
    """Predicates that a deployment's overrides cannot weaken."""
    absorb_write_returns: bool = False
    """Take the record a write returns for a read: a departure from the method."""
    failures: list[str] = Field(default_factory=list)
    """Patterns at the start of returns that are failures although no error flag says so."""
    tools: list[Annotated[ReadTool | WriteTool | EffectlessTool, Field(discriminator="effect")]]


class EngineShown(Contract):
    """Which engine answered."""

    name: Name
    version: str
    decision_id: str | None = None
    """The id under which OPA's own decision log has this decision; None when OPA keeps no such log."""


class FactRead(Contract):
    """A ledger record that the decision could look at: where and when it was read."""

    path: Path
    tool: Name
    call_id: str
    turn: Count
    at: Instant
    """The session's clock then."""


class Redaction(Contract):
    """What a record does not say, and what can still be done with it."""

    form: Literal["redacted", "pseudonyms", "encrypted"]
    """What became of what may not be logged: masked, replaced by stand-ins, or masked with the original sealed."""
    judged_again: Literal["exactly", "by_equality", "when_opened", "no"]
    """What its input still decides: all; what compares its texts with each other only; all, once opened; or nothing."""
    masked: list[Path]
    """Places of which nothing is left; `*` stands for keys and elements, `(undeclared)` for fields no schema names."""
    pseudonyms: list[Path]
    """Places whose texts are stand-ins; `(key)` stands for the keys of an object."""
    key: str | None
    """Which key the stand-ins or the sealed original were made with."""
    sealed: str | None
    """The record as it was, sealed for the holder of the key (base64)."""


Previous = Annotated[str, StringConstraints(pattern="^sha256:[0-9a-f]{64}$")] | None
"""SHA-256 of the line of the record before this one, as it stands in the file, without its line end."""


class DecisionRecord(Contract):
    """One line of a record file: a decision, complete enough to be judged again offline."""

    contract: Literal["ledgeragent.record/1"]
    kind: Literal["decision"]
    at: Instant
    """Wall-clock time of the host."""
    session: Name
    call_id: str
    input: GateInput
    decision: Decision | None
    """None when no acceptable decision came: then `error` says why, and the call was blocked."""
    error: str | None
    verdict: Verdict
    enforced: bool
    revision: str
    engine: EngineShown
    ledger_digest: Name
    facts: list[FactRead] = Field(default_factory=list)
    """The records of the ledger that `input.ledger` shows something of, sorted by path."""
    latency_ms: Annotated[float, Field(ge=0)]
    previous: Previous = None
    """Digest of the line of the record before, of nothing for the first of a chain; None where no chain is kept."""
    redacted: Redaction | None = None
    """None when everything stands here as it was."""


class OutcomeRecord(Contract):
    """One line of a record file: what became of a call."""

    contract: Literal["ledgeragent.record/1"]
    kind: Literal["outcome"]
    at: Instant
    session: Name
    call_id: str
    request: str
    """The request id of the decision it belongs to."""
    outcome: Outcome
    previous: Previous = None
    """Digest of the line of the record before, of nothing for the first of a chain; None where no chain is kept."""
    redacted: Redaction | None = None
    """None when everything stands here as it was."""


class Asked(Contract):
    """One obligation of a call, in the words of its predicate."""

    kind: Consent
    predicate: Name
    approvers: list[Name] | None
    """As in the decision."""
    message: str
    """What the rule has against the call."""


class FactShown(Contract):
    """A fact that the rule decided on, and where it was read."""

    path: Path
    value: Any
    tool: Name
    turn: Count
    at: Instant
    """The session's clock then."""


class ApprovalRequest(Contract):
    """What a person must see before they consent to a call; a grant is made of it."""

    contract: Literal["ledgeragent.approval-request/1"]
    request: Name
    """The request id of the decision that asks for it."""
    domain: DomainName
    session: Name
    now: Instant
    """The session's clock."""
    requester: Name
    """The session's principal, who asks for it. Without one there is no request: nobody knows who must not approve."""
    tool: Name
    arguments: dict[str, Any]
    obligations: Annotated[list[Asked], Field(min_length=1)]
    facts: Name
    """Digest of what the decision looked at."""
    evidence: list[FactShown]


class SignedGrant(Contract):
    """A grant with what proves it. The signature is over the grant's canonical JSON, behind the contract's name."""

    contract: Literal["ledgeragent.grant/1"]
    grant: Grant
    key: Name
    """Which key of the host's keys file verifies it."""
    signature: Name
    """Base64."""


ReadTool.model_rebuild()
WriteTool.model_rebuild()
ToolsFile.model_rebuild()
