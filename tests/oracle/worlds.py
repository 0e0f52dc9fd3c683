"""Retail gate inputs to try the policies on: made up, changed in one place, or not gate inputs at all.

Everything is drawn through a `Pick`, so that hypothesis can choose (and shrink) and a seeded random generator can.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

JSON = Any
T = TypeVar("T")
Pick = Callable[[Sequence[Any]], Any]
"""Chooses one element of a non-empty sequence."""

ME: Final = "ada_quist_1001"
OTHER: Final = "bo_lind_2002"
ORDERS: Final = ("#W1", "#W2")
METHODS: Final = ("credit_card_1", "gift_card_1", "paypal_1", "gift_card_9")
ITEMS: Final = ("lamp-a", "lamp-b", "lamp-c", "lamp-d", "chair-a", "chair-b", "sofa-a")
STATUSES: Final = (
    "pending",
    "delivered",
    "processed",
    "cancelled",
    "pending (item modified)",
    "exchange requested",
    "return requested",
    "Pending",
    "",
)
PRICES: Final = (30, 45.5, 20.1, 0, 0.07, 199.99, 1000.01)
ODD: Final[tuple[JSON, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1.005,
    0.285,
    1e15,
    2**53 - 1,
    "",
    "x",
    "pending",
    "gift_card",
    "payment",
    "\ud7ff\u2028\x00\U0001f600",
    "10000000",
    [],
    {},
    [None],
    [[]],
    ["x", 1],
    [{}],
    {"": ""},
    {"item_id": "lamp-a"},
    {"source": "gift_card", "balance": "1e9"},
    ["orders"],
    [["orders", "#W1"]],
    "2024-05-15",
    "2024-05-15T15:00:00-05:00\n",
    "2024-13-45T25:00:00Z",
    "__proto__",
)
ADDRESS: Final = {
    "address1": "1 Harbour Lane",
    "address2": "",
    "city": "Austin",
    "state": "TX",
    "country": "USA",
    "zip": "78701",
}
STALE: Final[tuple[tuple[str, ...], ...]] = (
    ("orders", "#W1", "status"),
    ("orders", "#W1", "items"),
    ("orders", "#W1", "payment_history"),
    ("orders", "#W1", "address"),
    ("orders", "#W1", "user_id"),
    ("orders", "#W1"),
    ("orders", "#W2", "status"),
    ("users", ME, "payment_methods", "gift_card_1", "balance"),
    ("users", ME, "payment_methods", "credit_card_1", "balance"),
    ("users", ME, "address"),
    ("users", ME),
    ("products", "lamps"),
    ("products", "chairs", "variants"),
    ("auth", "user_id"),
)
"""What a host can report as stale: fields that declared writes change, and whole records."""


def world(pick: Pick) -> JSON:
    """A well-formed gate input whose facts fit the ledger schema, sound in most of its parts."""
    tool = pick(tuple(_ARGUMENTS))
    stale = [list(path) for path in _some(pick, STALE, (0, 0, 0, 1, 2))]
    document = {
        "contract": "ledgeragent.gate-input/1",
        "request": "request-1",
        "domain": "retail",
        "session": _session(pick),
        "action": {"call_id": "call-1", "tool": tool, "arguments": _ARGUMENTS[tool](pick)},
        "ledger": _ledger(pick, tool),
        "stale": stale,
        "history": _history(pick, tool),
        "siblings": [{"tool": name, "arguments": _ARGUMENTS[name](pick)} for name in _some(pick, tuple(_ARGUMENTS))],
        "grants": _grants(pick, tool),
    }
    for path in stale:
        _remove(document["ledger"], path)
    return document


def _grants(pick: Pick, tool: str) -> list[JSON]:
    """Now and then a grant: retail has nothing that one lifts."""
    names = pick(((), (), (), (), ("retail.order_pending", "gate.loop")))
    if not names:
        return []
    return [
        {
            "id": "grant-1",
            "kind": pick(("approval", "user_confirmation")),
            "predicates": list(names),
            "domain": "retail",
            "session": "session-1",
            "tool": tool,
            "arguments": {},
            "facts": "sha256:0",
            "approver": pick(("grace", ME)),
            "issued": "2024-05-15T15:00:00-05:00",
            "expires": {"session": "2024-05-15T15:15:00-05:00", "host": "2024-05-15T20:15:00Z"},
        }
    ]


def mutated(document: JSON, pick: Pick) -> JSON:
    """A copy of a document with one to three parts deleted, replaced or mistyped, anywhere."""
    changed = copy.deepcopy(document)
    for _ in range(pick((1, 1, 2, 3))):
        found = list(places(changed))
        if not found:
            return pick(ODD)
        holder, key = pick(found)
        how = pick(("delete", "replace", "replace", "wrap", "rename"))
        change(holder, key, how, copy.deepcopy(pick(ODD)))
    return changed


def change(holder: JSON, key: Any, how: str, value: JSON) -> None:
    """Change one place of a document: delete, wrap in a list, rename its key by the value, or replace."""
    if how == "delete":
        del holder[key]
    elif how == "wrap":
        holder[key] = [holder[key]]
    elif how == "rename" and isinstance(holder, dict):
        holder[str(value)[:20]] = holder.pop(key)
    else:
        holder[key] = value


def places(value: JSON) -> list[tuple[JSON, Any]]:
    """Every place below a value: what holds it, and its key or index there."""
    found: list[tuple[JSON, Any]] = []
    keys: Sequence[Any] = (
        list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        found.append((value, key))
        found.extend(places(value[key]))
    return found


def _some(pick: Pick, values: Sequence[T], counts: Sequence[int] = (0, 0, 0, 0, 1)) -> list[T]:
    return [pick(values) for _ in range(pick(counts))]


def _mostly(pick: Pick, sound: T, others: Sequence[T]) -> T:
    """The sound choice five times out of six."""
    chosen: T = pick(others) if pick((True, False, False, False, False, False)) else sound
    return chosen


def _remove(tree: JSON, path: Sequence[str]) -> None:
    for key in path[:-1]:
        tree = tree.get(key, {})
    tree.pop(path[-1], None)


def _session(pick: Pick) -> JSON:
    principal = pick(
        (
            None,
            {"id": ME, "source": "proof"},
            {"id": ME, "source": "host"},
            {"id": ME, "source": "host", "claims": {"role": "customer"}},
            {"id": OTHER, "source": "claimed"},
            _mostly(pick, None, ({"id": OTHER, "source": "host"},)),
        )
    )
    return {
        "id": "session-1",
        "now": pick(("2024-05-15T15:00:00-05:00", "2024-02-29T00:00:00.5Z")),
        "turn": pick((0, 7)),
        "principal": principal,
        "rejections": pick((0, 0, 0, 0, 1, 2, 3, 4)),
    }


def _items(pick: Pick) -> list[JSON]:
    plain = ("lamp-a", "chair-a", "chair-a")
    ids = _mostly(pick, plain, (("chair-a",), (), ("sofa-a", "lamp-a"), ("lamp-b", "lamp-a")))
    products = {"lamp": "lamps", "chair": "chairs", "sofa": "sofas"}
    return [
        {"name": one.split("-")[0], "product_id": products[one.split("-")[0]], "item_id": one, "price": pick(PRICES)}
        for one in ids
    ]


def _payments(pick: Pick) -> list[JSON]:
    kinds = _mostly(pick, ("payment",), (("payment", "refund"), ("refund",), (), ("payment", "payment")))
    return [
        {
            "transaction_type": kind,
            "amount": pick(PRICES),
            "payment_method_id": _mostly(pick, "credit_card_1", METHODS),
        }
        for kind in kinds
    ]


def _order(pick: Pick, tool: str) -> JSON:
    sound = "delivered" if "delivered" in tool else "pending"
    return {
        "user_id": _mostly(pick, ME, (OTHER,)),
        "status": _mostly(pick, sound, STATUSES),
        "items": _items(pick),
        "payment_history": _payments(pick),
    }


def _profile(pick: Pick) -> JSON:
    methods: JSON = {
        "credit_card_1": {"source": "credit_card", "id": "credit_card_1"},
        "gift_card_1": {"source": "gift_card", "id": "gift_card_1", "balance": pick((*PRICES, None))},
        "paypal_1": {"source": "paypal", "id": "paypal_1"},
    }
    for gone in _some(pick, tuple(methods)):
        methods.pop(gone, None)
    return {"payment_methods": methods}


def _variants(pick: Pick, *ids: str) -> JSON:
    return {
        "variants": {
            one: {"item_id": one, "available": _mostly(pick, True, (False,)), "price": pick(PRICES)} for one in ids
        }
    }


def _ledger(pick: Pick, tool: str) -> JSON:
    ledger: JSON = {
        "auth": {"user_id": _mostly(pick, ME, (OTHER,))},
        "users": {ME: _profile(pick)},
        "orders": {"#W1": _order(pick, tool)},
        "products": {
            "lamps": _variants(pick, "lamp-a", "lamp-b", "lamp-c"),
            "chairs": _variants(pick, "chair-a", "chair-b"),
        },
    }
    for path in _some(pick, _FORGOTTEN, (0, 0, 0, 1, 1, 2)):
        _remove(ledger, path)
    return ledger


_FORGOTTEN: Final[tuple[tuple[str, ...], ...]] = (
    ("auth",),
    ("auth", "user_id"),
    ("users",),
    ("users", ME),
    ("users", ME, "payment_methods"),
    ("orders",),
    ("orders", "#W1"),
    ("orders", "#W1", "status"),
    ("orders", "#W1", "items"),
    ("orders", "#W1", "payment_history"),
    ("orders", "#W1", "user_id"),
    ("products",),
    ("products", "lamps"),
    ("products", "chairs"),
    ("products", "chairs", "variants"),
)


def _history(pick: Pick, tool: str) -> list[JSON]:
    return [
        {"tool": name, "arguments": _ARGUMENTS[name](pick), "outcome": pick(("executed", "uncertain", "pending"))}
        for name in _some(pick, (tool, *_ARGUMENTS), (0, 0, 0, 1, 2))
    ]


def _order_id(pick: Pick) -> str:
    return _mostly(pick, "#W1", ("#W2", "#W3"))


def _method(pick: Pick) -> str:
    chosen: str = pick(METHODS)
    return chosen


def _item_ids(pick: Pick) -> list[str]:
    chosen: Sequence[str] = pick(
        (("lamp-a",), ("chair-a",), ("lamp-a", "chair-a"), ("chair-a", "chair-a"), _mostly(pick, ("lamp-a",), _STRANGE))
    )
    return list(chosen)


_STRANGE: Final = (("sofa-a",), ("chair-a", "chair-a", "chair-a"), ("lamp-a", "sofa-a"), ())


def _replaced(pick: Pick) -> JSON:
    item_ids = _item_ids(pick)
    sound = {"lamp-a": ("lamp-b", "lamp-c"), "chair-a": ("chair-b",), "sofa-a": ITEMS}
    new_item_ids = [_mostly(pick, pick(sound[one]), (one, one, *ITEMS)) for one in item_ids]
    return {
        "order_id": _order_id(pick),
        "item_ids": item_ids,
        "new_item_ids": _mostly(pick, new_item_ids, (new_item_ids[1:], [*new_item_ids, "lamp-b"])),
        "payment_method_id": _method(pick),
    }


_ARGUMENTS: Final[dict[str, Callable[[Pick], JSON]]] = {
    "cancel_pending_order": lambda pick: {
        "order_id": _order_id(pick),
        "reason": pick(("no longer needed", "ordered by mistake", "no longer wanted")),
    },
    "modify_pending_order_address": lambda pick: {"order_id": _order_id(pick), **ADDRESS},
    "modify_pending_order_payment": lambda pick: {"order_id": _order_id(pick), "payment_method_id": _method(pick)},
    "modify_pending_order_items": _replaced,
    "modify_user_address": lambda pick: {"user_id": _mostly(pick, ME, (OTHER,)), **ADDRESS},
    "return_delivered_order_items": lambda pick: {
        "order_id": _order_id(pick),
        "item_ids": _item_ids(pick),
        "payment_method_id": _method(pick),
    },
    "exchange_delivered_order_items": _replaced,
}
