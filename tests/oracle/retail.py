"""The retail rules once more, in Python: what the decision on a gate input must be.

Rules are three-valued (`True`, `False`, or `None` for "cannot be told"), facts that are missing or stale make `None`,
and the connectives are Kleene's: what is already false decides an *and*, what is already true decides an *or*. Values
of a wrong type count against the call. Messages, evidence paths and overrides are left to the Rego's own tests.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema

Truth = bool | None
JSON = Any

SCHEMAS: Final = Path(__file__).resolve().parents[2] / "schemas"
ORDER_WRITES: Final = frozenset(
    {
        "cancel_pending_order",
        "modify_pending_order_address",
        "modify_pending_order_items",
        "modify_pending_order_payment",
        "return_delivered_order_items",
        "exchange_delivered_order_items",
    }
)
WRITES: Final = ORDER_WRITES | {"modify_user_address"}
PENDING: Final = frozenset(name for name in ORDER_WRITES if "pending" in name)
DELIVERED: Final = frozenset({"return_delivered_order_items", "exchange_delivered_order_items"})
REPLACE: Final = frozenset({"exchange_delivered_order_items", "modify_pending_order_items"})
ONCE: Final = REPLACE | {"return_delivered_order_items"}
PAYMENT: Final = frozenset({"modify_pending_order_payment"})
_DATE: Final = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]"
_INSTANT: Final = re.compile(rf"{_DATE}T{_TIME}:[0-5][0-9](\.[0-9]{{1,9}})?(Z|[+-]{_TIME})")


@dataclass(frozen=True)
class Expected:
    """What the decision must be.

    Attributes:
        verdict: allow, revise or block.
        findings: (predicate, status, verdict) of every finding.
    """

    verdict: str
    findings: frozenset[tuple[str, str, str]]


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


UNKNOWN: Final = _Unknown()
"""The fact was not read, or changed since."""
ABSENT: Final = _Absent()
"""What would hold the fact was read, may lack it, and does."""


def all_of(truths: Iterable[Truth]) -> Truth:
    """Kleene's and."""
    known = list(truths)
    return False if False in known else (None if None in known else True)


def any_of(truths: Iterable[Truth]) -> Truth:
    """Kleene's or."""
    known = list(truths)
    return True if True in known else (None if None in known else False)


def negated(truth: Truth) -> Truth:
    """Kleene's not."""
    return None if truth is None else not truth


def same(one: JSON, other: JSON) -> Truth:
    """Whether two facts are one JSON value."""
    if one is UNKNOWN or other is UNKNOWN:
        return None
    return one is not ABSENT and other is not ABSENT and _text(one) == _text(other)


def _text(value: JSON) -> str:
    def whole(inner: JSON) -> JSON:
        if isinstance(inner, dict):
            return {key: whole(item) for key, item in inner.items()}
        if isinstance(inner, list):
            return [whole(item) for item in inner]
        return int(inner) if isinstance(inner, float) and inner.is_integer() else inner

    return json.dumps(whole(value), sort_keys=True)


def cents(amount: JSON) -> int | None:
    """Integer cents, rounded half away from zero; None for what is no amount of money."""
    if isinstance(amount, bool) or not isinstance(amount, int | float) or abs(amount) >= 1_000_000_000:
        return None
    return int((Decimal(repr(amount)) * 100).quantize(Decimal(1), rounding=ROUND_HALF_UP))


@cache
def _tools() -> Mapping[str, Mapping[str, JSON]]:
    document = json.loads((SCHEMAS / "retail" / "tools.json").read_text(encoding="utf-8"))
    return {tool["name"]: tool for tool in document["tools"]}


@cache
def _parameters(tool: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(_tools()[tool]["parameters"])


# The request -----------------------------------------------------------------------------------------------------


def _name(value: JSON) -> bool:
    return isinstance(value, str) and value != ""


def _count(value: JSON) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= 1_000_000_000 and value == int(value)


def _closed(value: JSON, *keys: str) -> bool:
    return isinstance(value, dict) and set(value) == set(keys)


def _principal(value: JSON) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, dict)
        and {"id", "source"} <= set(value) <= {"id", "source", "claims"}
        and _name(value["id"])
        and value["source"] in ("host", "proof", "claimed")
        and isinstance(value.get("claims", {}), dict)
    )


def _instant(value: JSON) -> bool:
    return isinstance(value, str) and _INSTANT.fullmatch(value) is not None


def _session(value: JSON) -> bool:
    return (
        _closed(value, "id", "now", "turn", "principal", "rejections")
        and _name(value["id"])
        and _instant(value["now"])
        and _count(value["turn"])
        and _count(value["rejections"])
        and _principal(value["principal"])
    )


def _path(value: JSON) -> bool:
    return isinstance(value, list) and value != [] and all(isinstance(key, str) for key in value)


def _write(value: JSON, *more: str) -> bool:
    return _closed(value, "tool", "arguments", *more) and _name(value["tool"]) and isinstance(value["arguments"], dict)


def _entry(value: JSON) -> bool:
    return _write(value, "outcome") and value["outcome"] in ("executed", "uncertain", "pending")


def _grant(value: JSON) -> bool:
    names = ("id", "domain", "session", "tool", "facts", "approver")
    return (
        _closed(value, *names, "kind", "predicates", "arguments", "issued", "expires")
        and all(_name(value[name]) for name in names)
        and value["kind"] in ("approval", "user_confirmation")
        and _list(value["predicates"], _name)
        and value["predicates"] != []
        and isinstance(value["arguments"], dict)
        and _closed(value["expires"], "session", "host")
        and all(_instant(one) for one in (value["issued"], *value["expires"].values()))
    )


def _list(value: JSON, fits: Callable[[JSON], bool]) -> bool:
    return isinstance(value, list) and all(fits(item) for item in value)


def _raw(tree: JSON, path: Iterable[str]) -> JSON:
    for key in path:
        if not isinstance(tree, dict) or key not in tree:
            return ABSENT
        tree = tree[key]
    return tree


_FIELDS: Final = (
    "contract",
    "request",
    "domain",
    "session",
    "action",
    "ledger",
    "stale",
    "history",
    "siblings",
    "grants",
)


def well_formed(document: JSON) -> bool:
    """Whether a value is a gate input of the retail domain, as its contract has it."""
    return (
        _closed(document, *_FIELDS)
        and document["contract"] == "ledgeragent.gate-input/1"
        and _name(document["request"])
        and document["domain"] == "retail"
        and _session(document["session"])
        and _closed(document["action"], "call_id", "tool", "arguments")
        and isinstance(document["action"]["call_id"], str)
        and _name(document["action"]["tool"])
        and isinstance(document["ledger"], dict)
        and _list(document["stale"], _path)
        and all(_raw(document["ledger"], path) is ABSENT for path in document["stale"])
        and _list(document["history"], _entry)
        and _list(document["siblings"], _write)
        and _list(document["grants"], _grant)
    )


# The facts -------------------------------------------------------------------------------------------------------


class Facts:
    """What the gate input says, with unknown and known absence told apart."""

    def __init__(self, document: Mapping[str, JSON]) -> None:
        self.tool: str = document["action"]["tool"]
        self.arguments: dict[str, JSON] = document["action"]["arguments"]
        self.executed: list[JSON] = [*document["history"], *document["siblings"]]
        self._ledger = document["ledger"]
        self._stale = [tuple(path) for path in document["stale"]]
        principal = document["session"]["principal"]
        self.host: str | None = principal["id"] if principal is not None and principal["source"] == "host" else None

    def at(self, *path: JSON, absence: bool = False) -> JSON:
        """The fact under a path. With `absence`, the last key may be missing from what was read."""
        if not all(isinstance(key, str) for key in path):
            return UNKNOWN  # a part of the path is itself not known, or no key
        if self.is_stale(path):
            return UNKNOWN
        value = _raw(self._ledger, path)
        if value is not ABSENT:
            return value
        holder = self.at(*path[:-1]) if absence else UNKNOWN
        if not isinstance(holder, dict) or (*path[:-1], "?") in self._stale:
            return UNKNOWN
        return ABSENT

    def is_stale(self, path: tuple[str, ...]) -> bool:
        """Whether the path equals or lies below a stale one."""
        return any(path[: len(stale)] == stale for stale in self._stale)

    @property
    def customer(self) -> JSON:
        """Whom the host authenticated, else who was proved."""
        return self.host if self.host is not None else self.at("auth", "user_id")

    def order(self, field: str) -> JSON:
        """A field of the order that the call names."""
        return self.at("orders", self.arguments["order_id"], field)

    def method(self, method_id: str) -> JSON:
        """A payment method of the customer."""
        return self.at("users", self.customer, "payment_methods", method_id, absence=True)

    def method_field(self, field: str) -> JSON:
        """A field of the payment method that the call chooses; ABSENT when there is no such method or field."""
        held = self.method(self.arguments["payment_method_id"])
        if not isinstance(held, dict):
            return held
        path = ("users", self.customer, "payment_methods", self.arguments["payment_method_id"], field)
        return self.at(*path, absence=field == "balance")

    def variant(self, item_id: str, new_id: str) -> JSON:
        """The variant that is to replace an item of the order, among those of the same product."""
        product = self.item(item_id).get("product_id")
        if not isinstance(product, str):
            return None
        return self.at("products", product, "variants", new_id, absence=True)

    def item(self, item_id: str) -> dict[str, JSON]:
        """The order's item with this id, an empty object when there is none."""
        items = self.order("items")
        found = (
            [one for one in items if isinstance(one, dict) and one.get("item_id") == item_id] if _is_list(items) else []
        )
        return found[0] if found else {}

    def in_order(self, item_id: str) -> Truth:
        """Whether the order has an item with this id."""
        return None if self.order("items") is UNKNOWN else self.item(item_id) != {}

    def pairs(self) -> list[tuple[str, str]]:
        """Old and new item ids, position by position."""
        return list(zip(self.arguments["item_ids"], self.arguments["new_item_ids"], strict=False))

    def equally_long(self) -> bool:
        """Whether every item has a replacement."""
        return len(self.arguments["item_ids"]) == len(self.arguments["new_item_ids"])


def _is_list(value: JSON) -> bool:
    return isinstance(value, list)


# The predicates --------------------------------------------------------------------------------------------------


def user_authenticated(facts: Facts) -> Truth:
    """The customer was located by e-mail or by name and zip, or the host authenticated them."""
    customer = facts.customer
    return None if customer is UNKNOWN else _name(customer)


def order_owner(facts: Facts) -> Truth:
    """The order (or the profile) belongs to the customer; a read that proves somebody else than the host's violates."""
    proved = facts.at("auth", "user_id")
    if facts.host is not None and proved is not UNKNOWN and same(proved, facts.host) is False:
        return False
    owner = facts.arguments["user_id"] if facts.tool == "modify_user_address" else facts.order("user_id")
    return (
        all_of([user_authenticated(facts), same(owner, facts.customer)])
        if user_authenticated(facts)
        else (user_authenticated(facts))
    )


def order_pending(facts: Facts) -> Truth:
    """The order's status is exactly pending."""
    return same(facts.order("status"), "pending")


def order_delivered(facts: Facts) -> Truth:
    """The order's status is exactly delivered."""
    return same(facts.order("status"), "delivered")


def cancel_reason(facts: Facts) -> Truth:
    """One of the two accepted reasons."""
    return facts.arguments["reason"] in ("no longer needed", "ordered by mistake")


def items_in_order(facts: Facts) -> Truth:
    """The named items are a sub-multiset of the order's."""
    items = facts.order("items")
    if items is UNKNOWN:
        return None
    held = Counter[str](one["item_id"] for one in items if _is_item(one)) if _is_list(items) else Counter[str]()
    return not Counter[str](facts.arguments["item_ids"]) - held


def _is_item(value: JSON) -> bool:
    return isinstance(value, dict) and isinstance(value.get("item_id"), str)


def replacement_grounded(facts: Facts) -> Truth:
    """One observed, available variant of the same product per item, and not the item itself."""
    if not facts.equally_long():
        return False
    items = facts.order("items")
    if items is UNKNOWN:
        return None
    return all_of([_is_list(items), *(_grounded(facts, old, new) for old, new in facts.pairs())])


def _grounded(facts: Facts, old: str, new: str) -> Truth:
    if facts.item(old) == {}:
        return True  # not in the order: left to items_in_order
    variant = facts.variant(old, new)
    available = None if variant is UNKNOWN else isinstance(variant, dict) and variant.get("available") is True
    return all_of([old != new, available])


def payment_on_profile(facts: Facts) -> Truth:
    """The method is on the profile; for a return, having paid this order is enough."""
    method = facts.method(facts.arguments["payment_method_id"])
    on_profile = None if method is UNKNOWN else isinstance(method, dict)
    return any_of([on_profile, _paid_this_order(facts) if facts.tool == "return_delivered_order_items" else False])


def _paid_this_order(facts: Facts) -> Truth:
    history = facts.order("payment_history")
    if history is UNKNOWN:
        return None
    return _is_list(history) and any(
        isinstance(entry, dict)
        and entry.get("transaction_type") == "payment"
        and entry.get("payment_method_id") == facts.arguments["payment_method_id"]
        for entry in history
    )


def refund_payment_in_order_history(facts: Facts) -> Truth:
    """The refund goes to an original method, or to a gift card on the profile."""
    return any_of([_paid_this_order(facts), same(facts.method_field("source"), "gift_card")])


def payment_change_single(facts: Facts) -> Truth:
    """Exactly one payment so far, made with another method."""
    history = facts.order("payment_history")
    if history is UNKNOWN:
        return None
    if not _is_list(history) or len(history) != 1 or not isinstance(history[0], dict):
        return False
    paid_with = history[0].get("payment_method_id")
    return (
        history[0].get("transaction_type") == "payment"
        and isinstance(paid_with, str)
        and paid_with != facts.arguments["payment_method_id"]
    )


def gift_card_covers(facts: Facts) -> Truth:
    """A chosen gift card covers what is to be paid; what cannot be priced is left to the predicates that object."""
    source = facts.method_field("source")
    no_gift_card = (
        None if source is UNKNOWN else source is ABSENT or (isinstance(source, str) and source != "gift_card")
    )
    if facts.tool in PAYMENT:
        return any_of([no_gift_card, *_covered(facts, _whole_amount(facts))])
    return any_of([no_gift_card, _left_to_others(facts), *_covered(facts, _difference(facts))])


def _covered(facts: Facts, amount: int | _Unknown | None) -> list[Truth]:
    if isinstance(amount, _Unknown):
        return [None]
    if amount is None:
        return [False]
    balance = facts.method_field("balance")
    held = cents(balance)
    enough = None if balance is UNKNOWN else held is not None and held >= amount
    is_gift_card = same(facts.method_field("source"), "gift_card")
    return [amount <= 0, all_of([is_gift_card, enough])]


def _whole_amount(facts: Facts) -> int | _Unknown | None:
    history = facts.order("payment_history")
    if isinstance(history, _Unknown):
        return history
    if not _is_list(history) or not all(
        isinstance(entry, dict) and entry.get("transaction_type") in ("payment", "refund") for entry in history
    ):
        return None
    return _sum(cents(entry.get("amount")) for entry in history if entry["transaction_type"] == "payment")


def _left_to_others(facts: Facts) -> Truth:
    if not facts.equally_long():
        return True
    items = facts.order("items")
    if items is not UNKNOWN and not _is_list(items):
        return False
    strangers = [negated(facts.in_order(old)) for old, _ in facts.pairs()]
    lacking = [_lacks(facts, old, new) for old, new in facts.pairs()]
    return any_of([*strangers, *lacking])


def _lacks(facts: Facts, old: str, new: str) -> Truth:
    """Whether the product of an item is known to have no such variant."""
    if not facts.in_order(old):
        return facts.in_order(old)
    variant = facts.variant(old, new)
    return None if variant is UNKNOWN else variant is ABSENT


def _difference(facts: Facts) -> int | _Unknown | None:
    if facts.order("items") is UNKNOWN or any(
        facts.in_order(old) and facts.variant(old, new) is UNKNOWN for old, new in facts.pairs()
    ):
        return UNKNOWN
    return _sum(_one_difference(facts, old, new) for old, new in facts.pairs())


def _one_difference(facts: Facts, old: str, new: str) -> int | None:
    item, variant = facts.item(old), facts.variant(old, new) if facts.in_order(old) else None
    if not isinstance(variant, dict):
        return None
    before, after = cents(item.get("price")), cents(variant.get("price"))
    return None if before is None or after is None else after - before


def _sum(amounts: Iterable[int | None]) -> int | None:
    known = list(amounts)
    return None if None in known else sum(amount for amount in known if amount is not None)


def once_per_order(facts: Facts) -> Truth:
    """No exchange, return or item modification of this order ran before."""
    ran = any(
        write["tool"] in ONCE and write["arguments"].get("order_id") == facts.arguments["order_id"]
        for write in facts.executed
    )
    status = facts.order("status")
    shown = ("pending (item modified)", "exchange requested", "return requested")
    untouched = None if status is UNKNOWN else isinstance(status, str) and status not in shown
    return all_of([not ran, untouched])


def no_repeat_write(facts: Facts) -> Truth:
    """Not the very write that was executed last."""
    if not facts.executed:
        return True
    last = facts.executed[-1]
    return not (last["tool"] == facts.tool and same(last["arguments"], facts.arguments))


PREDICATES: Final[Mapping[str, tuple[frozenset[str], Callable[[Facts], Truth], str]]] = {
    "common.no_repeat_write": (WRITES, no_repeat_write, "revise"),
    "retail.user_authenticated": (WRITES, user_authenticated, "revise"),
    "retail.order_owner": (WRITES, order_owner, "block"),
    "retail.order_pending": (PENDING, order_pending, "block"),
    "retail.order_delivered": (DELIVERED, order_delivered, "block"),
    "retail.cancel_reason": (frozenset({"cancel_pending_order"}), cancel_reason, "revise"),
    "retail.items_in_order": (ONCE, items_in_order, "revise"),
    "retail.replacement_grounded": (REPLACE, replacement_grounded, "revise"),
    "retail.payment_on_profile": (ONCE | PAYMENT, payment_on_profile, "revise"),
    "retail.refund_payment_in_order_history": (
        frozenset({"return_delivered_order_items"}),
        refund_payment_in_order_history,
        "revise",
    ),
    "retail.gift_card_covers": (REPLACE | PAYMENT, gift_card_covers, "revise"),
    "retail.payment_change_single": (PAYMENT, payment_change_single, "revise"),
    "retail.once_per_order": (ONCE, once_per_order, "block"),
}
"""Id → (tools it guards, rule, verdict when violated)."""


# The decision ----------------------------------------------------------------------------------------------------


def expected(document: JSON) -> Expected:
    """What the decision on any JSON value must be; exact for well-formed inputs whose facts fit the ledger schema.

    Args:
        document: a gate input, or anything else.

    Returns:
        Verdict and findings. An `allow` here is an upper bound for whatever the facts look like.
    """
    if not well_formed(document):
        return _decision([("gate.input", "violated", "block")], 0)
    return _decision(list(_findings(document)), document["session"]["rejections"])


def cause(document: Mapping[str, JSON], path: Iterable[str]) -> str:
    """Why a fact that a finding lists is not to be had."""
    return "stale" if Facts(document).is_stale(tuple(path)) else "missing"


def _findings(document: Mapping[str, JSON]) -> Iterable[tuple[str, str, str]]:
    tool, arguments = document["action"]["tool"], document["action"]["arguments"]
    if tool not in _tools():
        return [("gate.tool", "violated", "block")]
    if not _parameters(tool).is_valid(arguments):
        return [("gate.arguments", "violated", "revise")]
    facts = Facts(document)
    judged = {name: rule(facts) for name, (tools, rule, _) in PREDICATES.items() if tool in tools}
    return [
        (name, "violated", PREDICATES[name][2]) if truth is False else (name, "unknown", "revise")
        for name, truth in judged.items()
        if truth is not True
    ]


def _decision(findings: list[tuple[str, str, str]], rejections: float) -> Expected:
    if findings and findings[0][0] != "gate.input" and rejections >= 3:
        findings.append(("gate.loop", "violated", "block"))
    verdicts = {verdict for _, _, verdict in findings}
    verdict = "block" if "block" in verdicts else ("revise" if findings else "allow")
    return Expected(verdict, frozenset(findings))
