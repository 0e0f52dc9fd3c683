"""Write `schemas/vectors/telecom.json`, or with `--check` say whether it is what it should be.

All people, lines and bills are made up.
"""

from __future__ import annotations

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

CUSTOMER = "C4102"
OTHER = "C5207"
LINE, FIRST_LINE, LAST_LINE = "L4112", "L4111", "L4113"
PHONES = {FIRST_LINE: "555-020-4111", LINE: "555-020-4112", LAST_LINE: "555-020-4113"}
PAID, OVERDUE = "B4121", "B4122"


def lines(**named: Json) -> Json:
    """The customer's lines as a line write sees them; `named` adds fields to some."""
    return {line: {"phone_number": phone, **named.get(line, {})} for line, phone in PHONES.items()}


def bills(overdue: str = "Overdue") -> Json:
    return {
        "bills": {PAID: {"status": "Paid"}, OVERDUE: {"status": overdue}},
        "customer_bills": {CUSTOMER: [PAID, OVERDUE]},
    }


def of_customer(**lists: list[str]) -> Json:
    return {"auth": {"customer_id": CUSTOMER}, "customers": {CUSTOMER: lists}}


LINE_FACTS: Json = {
    **of_customer(line_ids=list(PHONES)),
    "looked_up_phones": [PHONES[LINE]],
    "lines": lines(),
}
RESUME_FACTS: Json = {
    **LINE_FACTS,
    **of_customer(line_ids=list(PHONES), bill_ids=[PAID, OVERDUE]),
    **bills("Paid"),
    "lines": lines(**{LINE: {"status": "Suspended", "contract_end_date": "2027-01-31"}}),
}
BILL_FACTS: Json = {**of_customer(bill_ids=[PAID, OVERDUE]), **bills()}


def call(facts: Json, tool: str, **arguments: Any) -> Json:
    """A gate input for this call by the identified customer, with everything read and nothing stale."""
    return asked("telecom", {"id": CUSTOMER, "source": "proof"}, (tool, arguments), facts)


SUSPEND = call(LINE_FACTS, "suspend_line", customer_id=CUSTOMER, line_id=LINE, reason="phone stolen")
RESUME = call(RESUME_FACTS, "resume_line", customer_id=CUSTOMER, line_id=LINE)
ASK_TO_PAY = call(BILL_FACTS, "send_payment_request", customer_id=CUSTOMER, bill_id=OVERDUE)
ROAM = call(LINE_FACTS, "enable_roaming", customer_id=CUSTOMER, line_id=LINE)
STAY_HOME = call(LINE_FACTS, "disable_roaming", customer_id=CUSTOMER, line_id=LINE)
REFUEL = call(LINE_FACTS, "refuel_data", customer_id=CUSTOMER, line_id=LINE, gb_amount=2)

ASKED = after(outdated(RESUME, "bills", OVERDUE, "status"), "send_payment_request", ASK_TO_PAY["action"]["arguments"])
SUSPEND_OTHER = {"customer_id": CUSTOMER, "line_id": FIRST_LINE, "reason": "not used"}


def refuelled(base: Json, gigabytes: float, line: str = LINE, outcome: str = "executed") -> Json:
    """`base` after an earlier refuelling."""
    return after(base, "refuel_data", {"customer_id": CUSTOMER, "line_id": line, "gb_amount": gigabytes}, outcome)


def ends(date: Any) -> Json:
    """The resumption of a line whose contract ends on this date."""
    return changed(RESUME, "ledger", "lines", LINE, "contract_end_date", value=date)


def status(base: Json, bill: str, value: Any) -> Json:
    """`base` with another status of a bill."""
    return changed(base, "ledger", "bills", bill, "status", value=value)


ALLOWED = [
    Case("suspend a line", SUSPEND),
    Case("resume a suspended line, everything paid", RESUME),
    Case(
        "activate a line that waits for it",
        changed(RESUME, "ledger", "lines", LINE, "status", value="Pending Activation"),
    ),
    Case("resume a line whose contract ends today", ends("2026-03-02")),
    Case("resume a line without an end of contract", ends(None)),
    Case("resume a line while a bill is only issued", status(RESUME, OVERDUE, "Issued")),
    Case("resume a line after the requested bill was read again as paid", status(RESUME, OVERDUE, "Paid")),
    Case("ask to pay an overdue bill", ASK_TO_PAY),
    Case("ask to pay the second overdue bill once the first is paid", status(ASK_TO_PAY, PAID, "Paid")),
    Case("allow roaming", ROAM),
    Case("stop roaming", STAY_HOME),
    Case("roaming for a customer whom the host signed in", signed_in(forgotten(ROAM, "auth"), CUSTOMER)),
    Case("roaming where nobody was looked up by phone", argued(forgotten(ROAM, "looked_up_phones"), line_id=LAST_LINE)),
    Case(
        "roaming by a contact number that no line carries",
        changed(ROAM, "ledger", "looked_up_phones", value=["555-020-9999"]),
    ),
    Case(
        "roaming on the line with the number, the other lines unread",
        forgotten(forgotten(ROAM, "lines", FIRST_LINE), "lines", LAST_LINE),
    ),
    Case("refuel up to the limit", REFUEL),
    Case("refuel the rest of the limit", refuelled(argued(REFUEL, gb_amount=0.7), 1.3)),
    Case("refuel one line after another", refuelled(REFUEL, 2, FIRST_LINE)),
    Case(
        "the same roaming, with another write in between",
        after(after(ROAM, "enable_roaming", ROAM["action"]["arguments"]), "suspend_line", SUSPEND_OTHER),
    ),
]

REJECTED = [
    revised("nobody was identified", forgotten(STAY_HOME, "auth"), *unknown("telecom.owner")),
    revised("the profile was not read", forgotten(SUSPEND, "customers"), *unknown("telecom.owner")),
    blocked("another customer", argued(ROAM, customer_id=OTHER), *violated("telecom.owner")),
    blocked(
        "the line of somebody else",
        changed(argued(ROAM, line_id="L5211"), "ledger", "lines", "L5211", value={"phone_number": "555-020-4112"}),
        *violated("telecom.owner"),
    ),
    blocked(
        "the bill of somebody else",
        changed(argued(ASK_TO_PAY, bill_id="B5221"), "ledger", "bills", "B5221", value={"status": "Overdue"}),
        *violated("telecom.owner"),
    ),
    blocked(
        "a look-up proves somebody else than the host signed in",
        signed_in(ROAM, OTHER),
        *violated("telecom.owner"),
    ),
    revised(
        "the customer's list of bills is stale after a refuelling",
        refuelled(outdated(ASK_TO_PAY, "customers", CUSTOMER, "bill_ids"), 1),
        *unknown("telecom.owner", "telecom.single_pending_request"),
    ),
    revised("the line was not read", forgotten(REFUEL, "lines", LINE), *unknown("telecom.line_of_the_phone")),
    revised(
        "another line, the one with the number unread",
        forgotten(argued(ROAM, line_id=FIRST_LINE), "lines", LINE),
        *unknown("telecom.line_of_the_phone"),
    ),
    revised(
        "another line than the one with the number",
        argued(SUSPEND, line_id=LAST_LINE),
        *violated("telecom.line_of_the_phone"),
    ),
    revised(
        "a contact number, and lines that were not read",
        forgotten(changed(ROAM, "ledger", "looked_up_phones", value=["555-020-9999"]), "lines", LAST_LINE),
        *unknown("telecom.line_of_the_phone"),
    ),
    revised("a bill that is paid", status(ASK_TO_PAY, OVERDUE, "Paid"), *violated("telecom.bill_overdue")),
    revised("a bill that is only issued", status(ASK_TO_PAY, OVERDUE, "Issued"), *violated("telecom.bill_overdue")),
    revised(
        "the bill was not read",
        forgotten(ASK_TO_PAY, "bills", OVERDUE),
        *unknown("telecom.bill_overdue"),
    ),
    revised(
        "another bill awaits payment",
        status(ASK_TO_PAY, PAID, "Awaiting Payment"),
        *violated("telecom.single_pending_request"),
    ),
    revised(
        "another bill was not read",
        forgotten(ASK_TO_PAY, "bills", PAID),
        *unknown("telecom.single_pending_request"),
    ),
    revised(
        "another bill was requested and not read again",
        after(
            outdated(ASK_TO_PAY, "bills", PAID, "status"),
            "send_payment_request",
            {"customer_id": CUSTOMER, "bill_id": PAID},
        ),
        *unknown("telecom.single_pending_request"),
    ),
    revised(
        "a list of bills showed a bill that the profile lacks",
        changed(ASK_TO_PAY, "ledger", "customer_bills", CUSTOMER, value=[PAID, OVERDUE, "B4123"]),
        *violated("telecom.single_pending_request"),
    ),
    revised(
        "a second request without reading the bill again",
        after(
            after(
                outdated(ASK_TO_PAY, "bills", OVERDUE, "status"),
                "send_payment_request",
                ASK_TO_PAY["action"]["arguments"],
                "uncertain",
            ),
            "enable_roaming",
            ROAM["action"]["arguments"],
        ),
        *unknown("telecom.bill_overdue", "telecom.single_pending_request"),
    ),
    revised(
        "the bill was requested in the same message",
        beside(
            outdated(ASK_TO_PAY, "bills", OVERDUE, "status"),
            "send_payment_request",
            ASK_TO_PAY["action"]["arguments"],
        ),
        *violated("common.no_repeat_write"),
        *unknown("telecom.bill_overdue", "telecom.single_pending_request"),
    ),
    revised("a bill is overdue", status(RESUME, OVERDUE, "Overdue"), *violated("telecom.resume_bills_settled")),
    revised(
        "a bill awaits payment",
        status(RESUME, OVERDUE, "Awaiting Payment"),
        *violated("telecom.resume_bills_settled"),
    ),
    revised("a requested bill was not read again", ASKED, *unknown("telecom.resume_bills_settled")),
    revised(
        "a bill was never read",
        forgotten(RESUME, "bills", PAID),
        *unknown("telecom.resume_bills_settled"),
    ),
    blocked("the contract ended yesterday", ends("2026-03-01"), *violated("telecom.resume_contract_active")),
    blocked(
        "the contract ended, and a bill is open too",
        status(ends("2025-12-31"), OVERDUE, "Overdue"),
        *violated("telecom.resume_contract_active", "telecom.resume_bills_settled"),
    ),
    revised(
        "the contract's end was not read",
        forgotten(RESUME, "lines", LINE, "contract_end_date"),
        *unknown("telecom.resume_contract_active"),
    ),
    blocked("the contract's end is no date", ends("soon"), *violated("telecom.resume_contract_active")),
    revised(
        "the line is active",
        changed(RESUME, "ledger", "lines", LINE, "status", value="Active"),
        *violated("telecom.line_resumable"),
    ),
    revised(
        "the line was resumed before and not read again",
        after(
            outdated(RESUME, "lines", LINE, "status"),
            "suspend_line",
            SUSPEND["action"]["arguments"],
        ),
        *unknown("telecom.line_resumable"),
    ),
    revised("a thousandth over the limit", argued(REFUEL, gb_amount=2.001), *violated("telecom.refuel_limit")),
    revised("nothing to refuel", argued(REFUEL, gb_amount=0), *violated("telecom.refuel_limit")),
    revised("less than nothing to refuel", argued(REFUEL, gb_amount=-1), *violated("telecom.refuel_limit")),
    revised(
        "more than the rest of the limit",
        refuelled(argued(REFUEL, gb_amount=0.8), 1.3, outcome="uncertain"),
        *violated("telecom.refuel_limit"),
    ),
    revised(
        "refuelled in the same message",
        beside(argued(REFUEL, gb_amount=1), "refuel_data", {**REFUEL["action"]["arguments"], "gb_amount": 1.5}),
        *violated("telecom.refuel_limit"),
    ),
    revised(
        "the same write again",
        after(ROAM, "enable_roaming", ROAM["action"]["arguments"], "uncertain"),
        *violated("common.no_repeat_write"),
    ),
    blocked("a request of another domain", changed(ROAM, "domain", value="retail"), *violated("gate.input")),
    blocked(
        "a stale value that is still in the ledger",
        changed(RESUME, "stale", value=[["bills", OVERDUE, "status"]]),
        *violated("gate.input"),
    ),
    blocked(
        "a tool that is not declared",
        call(LINE_FACTS, "close_line", customer_id=CUSTOMER, line_id=LINE),
        *violated("gate.tool"),
    ),
    revised("an undeclared argument", argued(ROAM, force=True), *violated("gate.arguments")),
    revised("an amount that is a text", argued(REFUEL, gb_amount="2"), *violated("gate.arguments")),
    blocked(
        "the same rejected call for the fourth time",
        changed(argued(REFUEL, gb_amount=5), "session", "rejections", value=3),
        *violated("gate.loop", "telecom.refuel_limit"),
    ),
]


if __name__ == "__main__":
    main("telecom", [*ALLOWED, *REJECTED], __doc__)
