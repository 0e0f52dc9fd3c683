"""Write `schemas/vectors/retail.json`, or with `--check` say whether it is what it should be.

All people, orders and products are made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vector_file import (
    Case,
    Json,
    after,
    argued,
    asked,
    beside,
    blocked,
    changed,
    forgotten,
    main,
    outdated,
    revised,
    signed_in,
    unknown,
    violated,
)

CUSTOMER = "mira_holt_2041"
OTHER = "jonas_weil_3307"
PENDING = "#W1000001"
DELIVERED = "#W1000002"
GIFT_CARD = "gift_card_7001"
CREDIT_CARD = "credit_card_7002"
PAYPAL = "paypal_7003"
LAMP, BRIGHTER_LAMP, SMALLER_LAMP, SOLD_OUT_LAMP = "1100000001", "1100000002", "1100000003", "1100000004"
CHAIR, BETTER_CHAIR = "2200000001", "2200000002"
LAMPS, CHAIRS = "5500000011", "5500000022"
ADDRESS = {
    "address1": "12 Orchard Row",
    "address2": "",
    "city": "Madison",
    "state": "WI",
    "country": "USA",
    "zip": "53703",
}

# What the gate is given of an order, and whether of the profile and the products, for each tool.
SLICES: Mapping[str, tuple[tuple[str, ...], bool, bool]] = {
    "cancel_pending_order": (("user_id", "status"), False, False),
    "modify_pending_order_address": (("user_id", "status"), False, False),
    "modify_pending_order_payment": (("user_id", "status", "payment_history"), True, False),
    "modify_pending_order_items": (("user_id", "status", "items", "payment_history"), True, True),
    "modify_user_address": ((), False, False),
    "return_delivered_order_items": (("user_id", "status", "items", "payment_history"), True, False),
    "exchange_delivered_order_items": (("user_id", "status", "items", "payment_history"), True, True),
}


def item(name: str, product_id: str, item_id: str, price: float) -> Json:
    return {"name": name, "product_id": product_id, "item_id": item_id, "price": price, "options": {}}


def order(status: str, paid_by: str) -> Json:
    return {
        "user_id": CUSTOMER,
        "status": status,
        "items": [
            item("Desk Lamp", LAMPS, LAMP, 40.0),
            item("Garden Chair", CHAIRS, CHAIR, 75.5),
            item("Garden Chair", CHAIRS, CHAIR, 75.5),
        ],
        "payment_history": [{"transaction_type": "payment", "amount": 191.0, "payment_method_id": paid_by}],
    }


def variants(*rows: tuple[str, float, bool]) -> Json:
    return {
        item_id: {"item_id": item_id, "options": {}, "available": available, "price": price}
        for item_id, price, available in rows
    }


def ledger() -> Json:
    lamps = variants(
        (LAMP, 40.0, True), (BRIGHTER_LAMP, 52.25, True), (SMALLER_LAMP, 31.0, True), (SOLD_OUT_LAMP, 44.0, False)
    )
    return {
        "auth": {"user_id": CUSTOMER},
        "users": {
            CUSTOMER: {
                "payment_methods": {
                    GIFT_CARD: {"source": "gift_card", "id": GIFT_CARD, "balance": 12.25},
                    CREDIT_CARD: {"source": "credit_card", "id": CREDIT_CARD},
                    PAYPAL: {"source": "paypal", "id": PAYPAL},
                }
            }
        },
        "orders": {PENDING: order("pending", CREDIT_CARD), DELIVERED: order("delivered", PAYPAL)},
        "products": {
            LAMPS: {"name": "Desk Lamp", "product_id": LAMPS, "variants": lamps},
            CHAIRS: {
                "name": "Garden Chair",
                "product_id": CHAIRS,
                "variants": variants((CHAIR, 75.5, True), (BETTER_CHAIR, 99.99, True)),
            },
        },
    }


def sliced(tool: str, arguments: Json) -> Json:
    fields, profile, products = SLICES.get(tool, ((), False, False))
    whole = ledger()
    found: Json = {"auth": whole["auth"]}
    if fields:
        named = arguments["order_id"]
        found["orders"] = {named: {name: whole["orders"][named][name] for name in fields}}
    if profile:
        found["users"] = whole["users"]
    if products:
        found["products"] = whole["products"]
    return found


def call(tool: str, **arguments: Any) -> Json:
    """A gate input for this call by the authenticated customer, with everything read and nothing stale."""
    return asked("retail", {"id": CUSTOMER, "source": "proof"}, (tool, arguments), sliced(tool, arguments))


CANCEL = call("cancel_pending_order", order_id=PENDING, reason="no longer needed")
CHANGE_ADDRESS = call("modify_pending_order_address", order_id=PENDING, **ADDRESS)
CHANGE_PAYMENT = call("modify_pending_order_payment", order_id=PENDING, payment_method_id=PAYPAL)
CHANGE_ITEMS = call(
    "modify_pending_order_items",
    order_id=PENDING,
    item_ids=[LAMP],
    new_item_ids=[BRIGHTER_LAMP],
    payment_method_id=GIFT_CARD,
)
CHANGE_PROFILE = call("modify_user_address", user_id=CUSTOMER, **ADDRESS)
RETURN = call("return_delivered_order_items", order_id=DELIVERED, item_ids=[CHAIR, CHAIR], payment_method_id=PAYPAL)
EXCHANGE = call(
    "exchange_delivered_order_items",
    order_id=DELIVERED,
    item_ids=[LAMP, CHAIR],
    new_item_ids=[SMALLER_LAMP, BETTER_CHAIR],
    payment_method_id=CREDIT_CARD,
)


ALLOWED = [
    Case("cancel a pending order", CANCEL),
    Case("cancel an order made by mistake", argued(CANCEL, reason="ordered by mistake")),
    Case("cancel for a customer whom the host signed in", signed_in(forgotten(CANCEL, "auth"), CUSTOMER)),
    Case("change the address of a pending order", CHANGE_ADDRESS),
    Case("change the payment method", CHANGE_PAYMENT),
    Case(
        "pay the whole order with a gift card that just covers it",
        changed(
            argued(CHANGE_PAYMENT, payment_method_id=GIFT_CARD),
            *("ledger", "users", CUSTOMER, "payment_methods", GIFT_CARD, "balance"),
            value=191.0,
        ),
    ),
    Case("modify items, the gift card just covers the difference", CHANGE_ITEMS),
    Case(
        "modify an item to a cheaper one, whatever the gift card holds",
        outdated(
            argued(CHANGE_ITEMS, new_item_ids=[SMALLER_LAMP]),
            *("users", CUSTOMER, "payment_methods", GIFT_CARD, "balance"),
        ),
    ),
    Case("change the address on one's own profile", CHANGE_PROFILE),
    Case("return two of the same item to the original method", RETURN),
    Case("return to the original method without reading the profile", forgotten(RETURN, "users")),
    Case("return to a gift card", argued(RETURN, payment_method_id=GIFT_CARD)),
    Case("exchange two items", EXCHANGE),
    Case(
        "the same cancellation, with another write in between",
        after(
            after(CANCEL, "cancel_pending_order", CANCEL["action"]["arguments"]),
            "modify_user_address",
            CHANGE_PROFILE["action"]["arguments"],
        ),
    ),
]

REJECTED = [
    revised(
        "nobody was authenticated",
        forgotten(CANCEL, "auth"),
        *unknown("retail.order_owner", "retail.user_authenticated"),
    ),
    blocked(
        "what is on record as the user id is no user id",
        changed(CANCEL, "ledger", "auth", "user_id", value=2041),
        *violated("retail.order_owner", "retail.user_authenticated"),
    ),
    blocked(
        "the order of somebody else",
        changed(CANCEL, "ledger", "orders", PENDING, "user_id", value=OTHER),
        *violated("retail.order_owner"),
    ),
    blocked("the profile of somebody else", argued(CHANGE_PROFILE, user_id=OTHER), *violated("retail.order_owner")),
    blocked(
        "a look-up proves somebody else than the host signed in",
        signed_in(CANCEL, OTHER),
        *violated("retail.order_owner"),
    ),
    revised(
        "the order was not read",
        forgotten(CANCEL, "orders"),
        *unknown("retail.order_owner", "retail.order_pending"),
    ),
    blocked(
        "the order is processed",
        changed(CHANGE_ADDRESS, "ledger", "orders", PENDING, "status", value="processed"),
        *violated("retail.order_pending"),
    ),
    revised(
        "the status is stale after the agent's own item modification",
        after(
            outdated(CANCEL, "orders", PENDING, "status"),
            "modify_pending_order_items",
            CHANGE_ITEMS["action"]["arguments"],
        ),
        *unknown("retail.order_pending"),
    ),
    blocked(
        "the status was read again after an item modification",
        changed(CANCEL, "ledger", "orders", PENDING, "status", value="pending (item modified)"),
        *violated("retail.order_pending"),
    ),
    blocked(
        "an order on its way cannot be returned",
        changed(RETURN, "ledger", "orders", DELIVERED, "status", value="processed"),
        *violated("retail.order_delivered"),
    ),
    revised(
        "a reason that the shop does not accept",
        argued(CANCEL, reason="found it cheaper elsewhere"),
        *violated("retail.cancel_reason"),
    ),
    revised(
        "one item more than was ordered",
        argued(RETURN, item_ids=[CHAIR, CHAIR, CHAIR]),
        *violated("retail.items_in_order"),
    ),
    revised(
        "a new item that is sold out",
        argued(EXCHANGE, new_item_ids=[SOLD_OUT_LAMP, BETTER_CHAIR]),
        *violated("retail.replacement_grounded"),
    ),
    revised(
        "new items in the wrong order",
        argued(EXCHANGE, new_item_ids=[BETTER_CHAIR, SMALLER_LAMP]),
        *violated("retail.replacement_grounded"),
    ),
    revised(
        "an item exchanged for itself",
        argued(EXCHANGE, new_item_ids=[LAMP, BETTER_CHAIR]),
        *violated("retail.replacement_grounded"),
    ),
    revised(
        "fewer new items than old ones",
        argued(EXCHANGE, new_item_ids=[SMALLER_LAMP]),
        *violated("retail.replacement_grounded"),
    ),
    revised(
        "a product that was not read",
        forgotten(EXCHANGE, "products", CHAIRS),
        *unknown("retail.replacement_grounded"),
    ),
    revised(
        "a payment method that is not on the profile",
        argued(EXCHANGE, payment_method_id="credit_card_9999"),
        *violated("retail.payment_on_profile"),
    ),
    revised(
        "a refund to a method that did not pay",
        argued(RETURN, payment_method_id=CREDIT_CARD),
        *violated("retail.refund_payment_in_order_history"),
    ),
    revised(
        "the gift card is one cent short",
        changed(
            CHANGE_ITEMS,
            *("ledger", "users", CUSTOMER, "payment_methods", GIFT_CARD, "balance"),
            value=12.24,
        ),
        *violated("retail.gift_card_covers"),
    ),
    revised(
        "the gift card does not cover the whole order",
        argued(CHANGE_PAYMENT, payment_method_id=GIFT_CARD),
        *violated("retail.gift_card_covers"),
    ),
    revised(
        "the balance of the gift card is stale",
        outdated(CHANGE_ITEMS, "users", CUSTOMER, "payment_methods", GIFT_CARD, "balance"),
        *unknown("retail.gift_card_covers"),
    ),
    revised(
        "the payment method stays the same",
        argued(CHANGE_PAYMENT, payment_method_id=CREDIT_CARD),
        *violated("retail.payment_change_single"),
    ),
    revised(
        "the payment method was changed before",
        changed(
            CHANGE_PAYMENT,
            *("ledger", "orders", PENDING, "payment_history"),
            value=[
                {"transaction_type": "payment", "amount": 191.0, "payment_method_id": CREDIT_CARD},
                {"transaction_type": "payment", "amount": 191.0, "payment_method_id": GIFT_CARD},
                {"transaction_type": "refund", "amount": 191.0, "payment_method_id": CREDIT_CARD},
            ],
        ),
        *violated("retail.payment_change_single"),
    ),
    blocked(
        "items of this order may already have been returned",
        after(
            outdated(EXCHANGE, "orders", DELIVERED, "status"),
            "return_delivered_order_items",
            RETURN["action"]["arguments"],
            "uncertain",
        ),
        *violated("retail.once_per_order"),
        *unknown("retail.order_delivered"),
    ),
    blocked(
        "items of this order are exchanged in the same message",
        beside(RETURN, "exchange_delivered_order_items", EXCHANGE["action"]["arguments"]),
        *violated("retail.once_per_order"),
    ),
    blocked(
        "the status shows an earlier exchange",
        changed(EXCHANGE, "ledger", "orders", DELIVERED, "status", value="exchange requested"),
        *violated("retail.once_per_order", "retail.order_delivered"),
    ),
    revised(
        "the same write again",
        after(CHANGE_ADDRESS, "modify_pending_order_address", CHANGE_ADDRESS["action"]["arguments"], "uncertain"),
        *violated("common.no_repeat_write"),
    ),
    blocked("a request of another domain", changed(CANCEL, "domain", value="airline"), *violated("gate.input")),
    blocked(
        "a stale value that is still in the ledger",
        changed(CANCEL, "stale", value=[["orders", PENDING, "status"]]),
        *violated("gate.input"),
    ),
    blocked("a tool that is not declared", call("delete_customer", user_id=CUSTOMER), *violated("gate.tool")),
    revised("an undeclared argument", argued(CANCEL, force=True), *violated("gate.arguments")),
    revised("item ids that are no list", argued(RETURN, item_ids=CHAIR), *violated("gate.arguments")),
    blocked(
        "the same rejected call for the fourth time",
        changed(argued(CANCEL, reason="changed my mind"), "session", "rejections", value=3),
        *violated("gate.loop", "retail.cancel_reason"),
    ),
]


if __name__ == "__main__":
    main("retail", [*ALLOWED, *REJECTED], __doc__)
