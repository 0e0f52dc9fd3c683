"""The retail shop's back end: fifteen tools over users, orders and products. What it is for is said in `shops`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ledgeragent.session import ToolRefused
from ledgeragent.shops.backend import (
    Data,
    Function,
    calculate,
    cents,
    hand_over,
    known,
    payment_method,
)

_ADDRESS: Final = ("address1", "address2", "city", "state", "zip")


# The database ---------------------------------------------------------------------------------------------------


def stocked(seed: Mapping[str, Any]) -> Data:
    """The database made of what `retail.json` says in short: an order costs what its items cost."""
    products = {key: _product(key, one) for key, one in seed["products"].items()}
    data: Data = {"products": products, "users": {}, "orders": {}}
    for key, one in seed["users"].items():
        orders = [order_id for order_id, order in seed["orders"].items() if order["user"] == key]
        data["users"][key] = _user(key, one, orders)
    for key, one in seed["orders"].items():
        data["orders"][key] = _order(data, key, one)
    return data


def _product(product_id: str, seed: Mapping[str, Any]) -> dict[str, Any]:
    variants = {key: {"item_id": key, "available": True, **one} for key, one in seed["variants"].items()}
    return {"name": seed["name"], "product_id": product_id, "variants": variants}


def _user(user_id: str, seed: Mapping[str, Any], orders: list[str]) -> dict[str, Any]:
    first_name, last_name = seed["name"].split()
    return {
        "user_id": user_id,
        "name": {"first_name": first_name, "last_name": last_name},
        "address": {**dict(zip(_ADDRESS, seed["address"], strict=True)), "country": "USA"},
        "email": seed["email"],
        "payment_methods": {
            key: {"source": key.rpartition("_")[0], "id": key, **one} for key, one in seed["pays_with"].items()
        },
        "orders": orders,
    }


def _order(data: Data, order_id: str, seed: Mapping[str, Any]) -> dict[str, Any]:
    order = {
        "order_id": order_id,
        "user_id": seed["user"],
        "address": dict(data["users"][seed["user"]]["address"]),
        "items": [_item(data, item_id) for item_id in seed["items"]],
        "status": seed["status"],
        "payment_history": [],
    }
    total = cents(sum(item["price"] for item in order["items"]))
    order["payment_history"] = [_entry("payment", total, seed["paid_with"])]
    if seed["status"] == "cancelled":
        order["payment_history"].append(_entry("refund", total, seed["paid_with"]))
        order["cancel_reason"] = "no longer needed"
    return order


def _item(data: Data, item_id: str) -> dict[str, Any]:
    """A variant as it stands in an order."""
    product = _product_of(data, item_id)
    variant = product["variants"][item_id]
    return {
        "name": product["name"],
        "product_id": product["product_id"],
        "item_id": item_id,
        "price": variant["price"],
        "options": dict(variant["options"]),
    }


def _product_of(data: Data, item_id: str) -> dict[str, Any]:
    products = {key: product for product in data["products"].values() for key in product["variants"]}
    product: dict[str, Any] = known(products, item_id, "item")
    return product


def _entry(kind: str, amount: float, method_id: str) -> dict[str, Any]:
    return {"transaction_type": kind, "amount": amount, "payment_method_id": method_id}


# Reads ----------------------------------------------------------------------------------------------------------


def _find_by_email(data: Data, email: str) -> str:
    return _customer(data, email, lambda user: user["email"].casefold() == email.strip().casefold())


def _find_by_name_zip(data: Data, first_name: str, last_name: str, zip: str) -> str:  # noqa: A002 - the tool's name
    wanted = (first_name.strip().casefold(), last_name.strip().casefold(), zip.strip())

    def fits(user: Mapping[str, Any]) -> bool:
        name, code = user["name"], user["address"]["zip"]
        return (name["first_name"].casefold(), name["last_name"].casefold(), code) == wanted

    return _customer(data, f"{first_name} {last_name}, {zip}", fits)


def _customer(data: Data, wanted: str, fits: Callable[[Mapping[str, Any]], bool]) -> str:
    found = next((user_id for user_id, user in data["users"].items() if fits(user)), None)
    if found is None:
        raise ToolRefused(f"no customer found for {wanted[:80]!r}")
    return str(found)


def _user_details(data: Data, user_id: str) -> Any:
    return known(data["users"], user_id, "user")


def _order_details(data: Data, order_id: str) -> Any:
    return known(data["orders"], order_id, "order")


def _product_details(data: Data, product_id: str) -> Any:
    return known(data["products"], product_id, "product")


def _item_details(data: Data, item_id: str) -> Any:
    return _product_of(data, item_id)["variants"][item_id]


def _product_types(data: Data) -> dict[str, str]:
    return {product["name"]: product_id for product_id, product in sorted(data["products"].items())}


# Writes ---------------------------------------------------------------------------------------------------------


def _cancel(data: Data, order_id: str, reason: str) -> str:
    order = known(data["orders"], order_id, "order")
    refunded = _refund_all(data, order)
    order["status"] = "cancelled"
    order["cancel_reason"] = reason
    return f"Order {order_id} is cancelled{refunded}."


def _change_address(data: Data, order_id: str, **address: str) -> str:
    known(data["orders"], order_id, "order")["address"] = address
    return f"Order {order_id} goes to the new address."


def _change_payment(data: Data, order_id: str, payment_method_id: str) -> str:
    order = known(data["orders"], order_id, "order")
    payment_method(data, payment_method_id)
    amount = cents(sum(_paid(order).values()))
    refunded = _refund_all(data, order)
    _pay(data, order, amount, payment_method_id)
    return f"Order {order_id}: ${amount:.2f} charged to {payment_method_id}{refunded}."


def _modify_items(
    data: Data, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
) -> str:
    order = known(data["orders"], order_id, "order")
    payment_method(data, payment_method_id)
    difference = _difference(data, order, item_ids, new_item_ids)
    for old, new in zip(item_ids, new_item_ids, strict=True):
        position = next(at for at, item in enumerate(order["items"]) if item["item_id"] == old)
        order["items"][position] = _item(data, new)
    _pay(data, order, difference, payment_method_id)
    order["status"] = "pending (item modified)"
    return f"Order {order_id} is changed; {_settled(difference, payment_method_id)}."


def _change_user_address(data: Data, user_id: str, **address: str) -> str:
    known(data["users"], user_id, "user")["address"] = address
    return f"The default address of {user_id} is changed."


def _return_items(data: Data, order_id: str, item_ids: list[str], payment_method_id: str) -> str:
    order = known(data["orders"], order_id, "order")
    payment_method(data, payment_method_id)
    _must_hold(order, item_ids)
    order["status"] = "return requested"
    order["return_items"] = sorted(item_ids)
    order["return_payment_method_id"] = payment_method_id
    return f"A return of {', '.join(item_ids)} is requested; the refund goes to {payment_method_id}."


def _exchange_items(
    data: Data, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
) -> str:
    order = known(data["orders"], order_id, "order")
    payment_method(data, payment_method_id)
    difference = _difference(data, order, item_ids, new_item_ids)
    order["status"] = "exchange requested"
    order["exchange_items"] = list(item_ids)
    order["exchange_new_items"] = list(new_item_ids)
    order["exchange_payment_method_id"] = payment_method_id
    order["exchange_price_difference"] = difference
    _take(data, difference, payment_method_id)
    return f"The exchange is requested; {_settled(difference, payment_method_id)}."


# Money and goods ------------------------------------------------------------------------------------------------


def _must_hold(order: Mapping[str, Any], item_ids: Sequence[str]) -> None:
    """Refuse items that the order does not hold as often as they are named."""
    missing = Counter(item_ids) - Counter(item["item_id"] for item in order["items"])
    if missing:
        raise ToolRefused(f"order {order['order_id']} does not hold {', '.join(sorted(missing))} that often")


def _difference(data: Data, order: Mapping[str, Any], item_ids: Sequence[str], new_item_ids: Sequence[str]) -> float:
    """What the new items cost more than the old ones, in dollars."""
    if len(item_ids) != len(new_item_ids):
        raise ToolRefused(f"{len(item_ids)} items for {len(new_item_ids)}: each needs one replacement")
    _must_hold(order, item_ids)
    old = {item["item_id"]: item["price"] for item in order["items"]}
    new = [_item(data, item_id)["price"] for item_id in new_item_ids]
    return cents(sum(new) - sum(old[item_id] for item_id in item_ids))


def _paid(order: Mapping[str, Any]) -> dict[str, float]:
    """What each method has paid and not got back, in dollars."""
    paid: dict[str, float] = {}
    for entry in order["payment_history"]:
        amount = entry["amount"] if entry["transaction_type"] == "payment" else -entry["amount"]
        paid[entry["payment_method_id"]] = cents(paid.get(entry["payment_method_id"], 0) + amount)
    return {method_id: amount for method_id, amount in paid.items() if amount > 0}


def _refund_all(data: Data, order: dict[str, Any]) -> str:
    paid = _paid(order)
    for method_id, amount in paid.items():
        _pay(data, order, -amount, method_id)
    return "".join(f", ${amount:.2f} refunded to {method_id}" for method_id, amount in paid.items())


def _pay(data: Data, order: dict[str, Any], amount: float, method_id: str) -> None:
    """Charge an order to a method, or with a negative amount refund it."""
    if amount:
        order["payment_history"].append(_entry("payment" if amount > 0 else "refund", abs(amount), method_id))
        _take(data, amount, method_id)


def _take(data: Data, amount: float, method_id: str) -> None:
    method = payment_method(data, method_id)
    if "balance" in method:
        method["balance"] = cents(method["balance"] - amount)


def _settled(difference: float, method_id: str) -> str:
    if not difference:
        return "the price stays the same"
    return f"${abs(difference):.2f} {'charged' if difference > 0 else 'refunded'} to {method_id}"


FUNCTIONS: Final[Mapping[str, Function]] = {
    "find_user_id_by_email": _find_by_email,
    "find_user_id_by_name_zip": _find_by_name_zip,
    "get_user_details": _user_details,
    "get_order_details": _order_details,
    "get_product_details": _product_details,
    "get_item_details": _item_details,
    "list_all_product_types": _product_types,
    "cancel_pending_order": _cancel,
    "modify_pending_order_address": _change_address,
    "modify_pending_order_payment": _change_payment,
    "modify_pending_order_items": _modify_items,
    "modify_user_address": _change_user_address,
    "return_delivered_order_items": _return_items,
    "exchange_delivered_order_items": _exchange_items,
    "calculate": calculate,
    "transfer_to_human_agents": hand_over,
}
