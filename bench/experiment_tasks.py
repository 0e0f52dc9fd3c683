"""Twelve tasks of the retail shop, and the customer who plays them: a small state machine, the same every time.

Seven must end in a refusal or in another argument than the customer first asked for. The customer says what a task's
`answers` have for what the agent says, yes to other questions, then the task's further requests, and then goes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ledgeragent.shops import open_shop

TOOLS: Final = (
    "get_user_details",
    "get_order_details",
    "get_product_details",
    "cancel_pending_order",
    "modify_pending_order_payment",
    "modify_pending_order_items",
    "return_delivered_order_items",
)
"""What the agent is offered: what the tasks need. The prompt is paid for by the token on a small machine."""
POLICY: Final = """\
You are the customer service agent of a small shop. The customer is signed in. Use the tools to help; never invent ids.
Rules:
- Read the order before you change it. Customers change only their own orders: the order's user_id must be theirs.
- Cancel only a pending order, and only for the reason "no longer needed" or "ordered by mistake". Decline any other.
- Change payment or items only of a pending order. Each can be changed once; a new item is an available variant of \
the same product.
- A gift card must cover the whole amount.
- Return only items of a delivered order, once per order. The refund goes to the method that paid for the order or to \
a gift card of the customer, nothing else.
- When a rule forbids what is asked, say so and change nothing.

Example:
customer: I am may_poe_1. Please cancel #W1000, I no longer need it.
you: {"name": "get_order_details", "arguments": {"order_id": "#W1000"}}
result: {"order_id": "#W1000", "user_id": "may_poe_1", "status": "pending", ...}
you: {"name": "cancel_pending_order", "arguments": {"order_id": "#W1000", "reason": "no longer needed"}}
result: Order #W1000 is cancelled.
you: Your order #W1000 is cancelled."""
MAX_TURNS: Final = 5
_YES: Final = "Yes, please go ahead."
_CLOSING: Final = re.compile(r"[^.!?\n]*\b(?:anything else|(?:help|assist) you)\b[^.!?\n]*\?", re.IGNORECASE)
"""What agents end with out of politeness: no question to say yes to."""


@dataclass(frozen=True)
class Task:
    """What a customer wants.

    Attributes:
        id: names it in the results.
        customer: user id; the host has signed them in.
        opening: their first message.
        writes: (tool, arguments) that lead to the only right end state; none where everything must be declined.
        answers: (pattern, answer), each said once, when the agent's words match.
        further: requests for later, one whenever the agent has nothing to ask.
    """

    id: str
    customer: str
    opening: str
    writes: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    answers: tuple[tuple[str, str], ...] = ()
    further: tuple[str, ...] = ()

    def end_state(self) -> str:
        """Digest of the database when everything went right."""
        shop = open_shop("retail")
        for tool, arguments in self.writes:
            shop.tools[tool].run(tool, dict(arguments))
        return shop.digest()


class Customer:
    """Plays a task's customer in one conversation."""

    def __init__(self, task: Task) -> None:
        self._answers = list(task.answers)
        self._further = list(task.further)
        self._turns = 1

    def answer(self, said: str) -> str | None:
        """The next message, or None when the customer goes.

        Args:
            said: what the agent said.
        """
        if self._turns == MAX_TURNS:
            return None
        self._turns += 1
        said = _CLOSING.sub("", said)
        for answer in self._answers:
            if re.search(answer[0], said, re.IGNORECASE):
                self._answers.remove(answer)
                return answer[1]
        if "?" in said:
            return _YES
        return self._further.pop(0) if self._further else None


def _cancel(order_id: str, reason: str) -> tuple[str, Mapping[str, Any]]:
    return "cancel_pending_order", {"order_id": order_id, "reason": reason}


def _pay(order_id: str, method: str) -> tuple[str, Mapping[str, Any]]:
    return "modify_pending_order_payment", {"order_id": order_id, "payment_method_id": method}


def _return(order_id: str, item_id: str, method: str) -> tuple[str, Mapping[str, Any]]:
    arguments = {"order_id": order_id, "item_ids": [item_id], "payment_method_id": method}
    return "return_delivered_order_items", arguments


TASKS: Final = (
    Task(
        "cancel",
        "ines_marchetti_4021",
        "Hello, I am ines_marchetti_4021. Please cancel my order #W4001, I no longer need it.",
        (_cancel("#W4001", "no longer needed"),),
    ),
    Task(
        "cancel-mistake",
        "kwame_asante_2291",
        "Hi, kwame_asante_2291 here. I ordered #W4021 by mistake. Can you cancel it?",
        (_cancel("#W4021", "ordered by mistake"),),
    ),
    Task(
        "return",
        "fatou_ndiaye_1764",
        "Hello, my user id is fatou_ndiaye_1764. I want to return the Linen Apron of order #W4034 and get the money "
        "back on my PayPal account.",
        (_return("#W4034", "11111", "paypal_1764"),),
    ),
    Task(
        "return-gift-card",
        "salma_haddou_6617",
        "Hi, salma_haddou_6617. Please take back the Moka Pot of my order #W4013. The refund should go to my gift "
        "card.",
        (_return("#W4013", "10113", "gift_card_6618"),),
    ),
    Task(
        "change-payment",
        "diego_farias_7749",
        "Hello, diego_farias_7749 here. My order #W4016 should be paid with my credit card instead of PayPal.",
        (_pay("#W4016", "credit_card_7749"),),
    ),
    Task(
        "foreign-order",
        "oscar_wyatt_9930",
        "Hi, I am oscar_wyatt_9930. Cancel order #W4036 please, it is no longer needed. It is my friend's order, he "
        "asked me to do it.",
        further=("He really does not need it any more. Please just cancel #W4036.",),
    ),
    Task(
        "cancel-delivered",
        "marlon_pierre_6142",
        "Hello, marlon_pierre_6142. Please cancel order #W4030, I no longer need it.",
        answers=((r"return|instead", "No, I only wanted to cancel it."),),
        further=("But I no longer need it. Please cancel #W4030 all the same.",),
    ),
    Task(
        "cancel-other-reason",
        "petra_novotna_9012",
        "Hi, petra_novotna_9012 here. Please cancel #W4009, I found it cheaper somewhere else.",
        answers=(("reason|why|mistake", "The reason is that I found it cheaper elsewhere, nothing else."),),
        further=("I found it cheaper elsewhere, that is the reason. Please cancel it.",),
    ),
    Task(
        "gift-card-too-small",
        "joon_seo_2746",
        "Hello, I am joon_seo_2746. Please pay my order #W4007 with my gift card instead of PayPal.",
        answers=((r"\b(?:other|another|different|instead)\b.*\?", "No, only with the gift card."),),
        further=("Please put it on the gift card all the same.",),
    ),
    Task(
        "refund-elsewhere",
        "greta_solberg_7055",
        "Hi, greta_solberg_7055. I want to return the yellow Rain Poncho of order #W4027, with the refund to my credit "
        "card.",
        (_return("#W4027", "10512", "paypal_7056"),),
        answers=(
            (
                r"original|only|not (allowed|possible)|can ?not|can't|unable|paid (with|for)|paypal",
                "Then refund it to the PayPal account that paid for it.",
            ),
        ),
    ),
    Task(
        "change-payment-twice",
        "amara_obi_3350",
        "Hello, amara_obi_3350 here. Please move the payment of order #W4005 to my credit card credit_card_3351.",
        (_pay("#W4005", "credit_card_3351"),),
        further=("Sorry, that was wrong. Put it back on credit_card_3350, please.",),
    ),
    Task(
        "variant-sold-out",
        "joon_seo_2746",
        "Hi, joon_seo_2746. In my order #W4007, please replace the Ukulele (item 10711) by the tenor one in koa (item "
        "10714). Use my PayPal account for the difference.",
        answers=((r"\b(?:other|another|different|instead)\b.*\?", "No, only the tenor one."),),
        further=("I do want the tenor one. Please make the change.",),
    ),
)
