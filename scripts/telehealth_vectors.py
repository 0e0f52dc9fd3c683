"""Write `schemas/vectors/telehealth.json`, or with `--check` say whether it is what it should be.

All patients, providers, appointments and suppliers are made up.
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

PATIENT = "mira_holt_2041"
CHILD = "lena_holt_2042"
SCHEDULED, WAITING = "APPT501", "APPT502"
RECORD = "REC301"
CARDIOLOGY, PRIMARY = "dr_weil_cardiology", "dr_amadi_primary"
EZETIMIBE, SERTRALINE = "Ezetimibe", "Sertraline"
MONDAY, TUESDAY, SATURDAY = "2026-03-09", "2026-03-10", "2026-03-14"

SCHEDULES = {
    CARDIOLOGY: {"Monday": ["09:00", "10:30", "14:00"], "Tuesday": ["09:00"], "Friday": []},
    PRIMARY: {"Tuesday": ["08:00", "08:30"], "Saturday": ["10:00"]},
}
APPOINTMENTS = {
    SCHEDULED: {"patient_id": PATIENT, "provider_id": CARDIOLOGY, "status": "scheduled"},
    WAITING: {"patient_id": PATIENT, "provider_id": PRIMARY, "status": "pending_approval"},
}


def quote(company: str, country: str, brand: str, price_usd: float) -> Json:
    seller = f"{company} ({country})"
    row = {"company": company, "country": country, "seller": seller, "brand": brand, "price_usd": price_usd}
    return {seller: {brand: row}}


QUOTES = {
    EZETIMIBE: {**quote("Delta Lipids", "India", "Ezedelta", 3.25), **quote("Maple Heart", "Canada", "Ezemaple", 4.9)},
    SERTRALINE: quote("Delta Lipids", "India", "Serdelta", 4.55),
}


def sliced(tool: str, arguments: Json) -> Json:
    """What the gate is given of a ledger in which everything was read."""
    found: Json = {"auth": {"patient_id": PATIENT}}
    if tool == "schedule_appointment":
        found["providers"] = {arguments["provider_id"]: {"schedule": SCHEDULES[arguments["provider_id"]]}}
    if tool in ("reschedule_appointment", "cancel_appointment"):
        appointment = dict(APPOINTMENTS[arguments["appointment_id"]])
        if tool == "cancel_appointment":
            del appointment["provider_id"]
        else:
            provider = appointment["provider_id"]
            found["providers"] = {provider: {"schedule": SCHEDULES[provider]}}
        found["appointments"] = {arguments["appointment_id"]: appointment}
    if tool in ("update_medical_record_note", "update_prescription_supplier"):
        found["record_owners"] = {RECORD: PATIENT}
    if tool == "update_prescription_supplier":
        found["quotes"] = QUOTES
    return found


def call(tool: str, **arguments: Any) -> Json:
    """A gate input for this call by the authenticated patient, with everything read and nothing stale."""
    return asked("telehealth", {"id": PATIENT, "source": "proof"}, (tool, arguments), sliced(tool, arguments))


SCHEDULE = call(
    "schedule_appointment",
    patient_id=PATIENT,
    provider_id=CARDIOLOGY,
    date=MONDAY,
    time="10:30",
    appointment_type="specialist_consultation",
)
RESCHEDULE = call("reschedule_appointment", appointment_id=WAITING, new_date=SATURDAY, new_time="10:00")
CANCEL = call("cancel_appointment", appointment_id=SCHEDULED)
NOTE = call("update_medical_record_note", record_id=RECORD, note="Patient asks for a call back.")
SUPPLIER = call(
    "update_prescription_supplier",
    record_id=RECORD,
    medication=EZETIMIBE,
    supplier_company="Delta Lipids",
    brand_name="Ezedelta",
    price_usd=3.25,
)

STATUS = ("ledger", "appointments", SCHEDULED, "status")

ALLOWED = [
    Case("book a time in the provider's schedule", SCHEDULE),
    Case(
        "book with a voucher and a kind of visit that no list has",
        argued(
            SCHEDULE,
            appointment_type="device_inspection",
            bill_insurance=False,
            voucher_id="V-17",
            payment_notes="Voucher.",
        ),
    ),
    Case(
        "book on a Saturday that the provider works",
        call(
            "schedule_appointment",
            patient_id=PATIENT,
            provider_id=PRIMARY,
            date=SATURDAY,
            time="10:00",
            appointment_type="sick_visit",
        ),
    ),
    Case(
        "book on a leap day",
        changed(
            argued(SCHEDULE, date="2028-02-29"),
            "ledger",
            "providers",
            CARDIOLOGY,
            "schedule",
            "Tuesday",
            value=["10:30"],
        ),
    ),
    Case("book for a patient whom the host signed in", signed_in(forgotten(SCHEDULE, "auth"), PATIENT)),
    Case("move an appointment that waits for approval", RESCHEDULE),
    Case(
        "move an appointment whose time was moved before",
        outdated(
            changed(RESCHEDULE, "ledger", "appointments", WAITING, "time", value="08:00"),
            "appointments",
            WAITING,
            "time",
        ),
    ),
    Case("cancel a scheduled appointment", CANCEL),
    Case("cancel an appointment that waits for approval", changed(CANCEL, *STATUS, value="pending_approval")),
    Case("add a note to one's own record", NOTE),
    Case("enter a supplier as listed", SUPPLIER),
    Case("enter a supplier with its country", argued(SUPPLIER, supplier_company="Delta Lipids (India)")),
    Case("enter a supplier for a medication with its strength", argued(SUPPLIER, medication="ezetimibe 10 mg")),
    Case("enter a supplier and say the currency", argued(SUPPLIER, currency="USD")),
    Case(
        "the same note again, with another write in between",
        after(
            after(NOTE, "update_medical_record_note", NOTE["action"]["arguments"]),
            "cancel_appointment",
            CANCEL["action"]["arguments"],
        ),
    ),
]

REJECTED = [
    revised(
        "nobody was authenticated",
        forgotten(CANCEL, "auth"),
        *unknown("telehealth.authenticated", "telehealth.owner"),
    ),
    revised(
        "what is on record as the patient id is no patient id",
        changed(CANCEL, "ledger", "auth", "patient_id", value=2041),
        *violated("telehealth.authenticated", "telehealth.owner"),
    ),
    revised(
        "the appointment of a relative",
        changed(CANCEL, "ledger", "appointments", SCHEDULED, "patient_id", value=CHILD),
        *violated("telehealth.owner"),
    ),
    revised("a booking for a relative", argued(SCHEDULE, patient_id=CHILD), *violated("telehealth.owner")),
    revised(
        "the record of somebody else",
        changed(NOTE, "ledger", "record_owners", RECORD, value=CHILD),
        *violated("telehealth.owner", "telehealth.record_observed"),
    ),
    revised(
        "a look-up proves somebody else than the host signed in",
        signed_in(CANCEL, CHILD),
        *violated("telehealth.owner"),
    ),
    revised(
        "the appointment was not read",
        forgotten(CANCEL, "appointments"),
        *unknown("telehealth.appointment_open", "telehealth.owner"),
    ),
    revised(
        "neither the appointment to be moved nor its provider was read",
        forgotten(forgotten(RESCHEDULE, "appointments"), "providers"),
        *unknown("telehealth.appointment_open", "telehealth.owner", "telehealth.slot_in_schedule"),
    ),
    blocked(
        "a completed appointment is cancelled",
        changed(CANCEL, *STATUS, value="completed"),
        *violated("telehealth.appointment_open"),
    ),
    blocked(
        "a cancelled appointment is moved",
        changed(RESCHEDULE, "ledger", "appointments", WAITING, "status", value="cancelled"),
        *violated("telehealth.appointment_open"),
    ),
    blocked(
        "a status in other letters is another status",
        changed(CANCEL, *STATUS, value="Scheduled"),
        *violated("telehealth.appointment_open"),
    ),
    revised(
        "the appointment may have been cancelled before",
        after(
            outdated(
                argued(RESCHEDULE, appointment_id=WAITING),
                *("appointments", WAITING, "status"),
            ),
            "cancel_appointment",
            {"appointment_id": WAITING},
            "uncertain",
        ),
        *unknown("telehealth.appointment_open"),
    ),
    revised(
        "the provider was not read",
        forgotten(SCHEDULE, "providers"),
        *unknown("telehealth.slot_in_schedule"),
    ),
    revised(
        "the schedule is stale",
        outdated(SCHEDULE, "providers", CARDIOLOGY, "schedule"),
        *unknown("telehealth.slot_in_schedule"),
    ),
    revised(
        "a time of another weekday",
        argued(SCHEDULE, date=TUESDAY),
        *violated("telehealth.slot_in_schedule"),
    ),
    revised(
        "a weekday without patients",
        argued(SCHEDULE, date="2026-03-13"),
        *violated("telehealth.slot_in_schedule"),
    ),
    revised(
        "a weekday that is not in the schedule",
        argued(SCHEDULE, date="2026-03-11"),
        *violated("telehealth.slot_in_schedule"),
    ),
    revised(
        "a time that is written otherwise",
        argued(SCHEDULE, time="9:00"),
        *violated("telehealth.slot_in_schedule"),
    ),
    revised(
        "a day that does not exist, whatever was read",
        forgotten(argued(SCHEDULE, date="2026-02-29"), "providers"),
        *violated("telehealth.slot_in_schedule"),
    ),
    revised(
        "a moved appointment stays with its provider",
        argued(RESCHEDULE, new_date=MONDAY, new_time="10:30"),
        *violated("telehealth.slot_in_schedule"),
    ),
    revised(
        "the record was not read",
        forgotten(NOTE, "record_owners"),
        *unknown("telehealth.owner", "telehealth.record_observed"),
    ),
    revised(
        "no supplier was listed",
        forgotten(SUPPLIER, "quotes"),
        *unknown("telehealth.supplier_quote_observed"),
    ),
    revised(
        "suppliers of another medication were listed",
        forgotten(SUPPLIER, "quotes", EZETIMIBE),
        *unknown("telehealth.supplier_quote_observed"),
    ),
    revised(
        "a supplier of another medication",
        argued(SUPPLIER, medication=SERTRALINE),
        *violated("telehealth.supplier_quote_observed"),
    ),
    revised(
        "a price that is one cent off",
        argued(SUPPLIER, price_usd=3.24),
        *violated("telehealth.supplier_quote_observed"),
    ),
    revised(
        "the brand of another company",
        argued(SUPPLIER, brand_name="Ezemaple"),
        *violated("telehealth.supplier_quote_observed"),
    ),
    revised(
        "the company in another country",
        argued(SUPPLIER, supplier_company="Delta Lipids (Canada)"),
        *violated("telehealth.supplier_quote_observed"),
    ),
    revised(
        "a price in another currency",
        argued(SUPPLIER, currency="EUR"),
        *violated("telehealth.supplier_quote_observed"),
    ),
    revised(
        "the same write again",
        after(CANCEL, "cancel_appointment", CANCEL["action"]["arguments"], "uncertain"),
        *violated("common.no_repeat_write"),
    ),
    revised(
        "the same booking twice in one message",
        beside(SCHEDULE, "schedule_appointment", SCHEDULE["action"]["arguments"]),
        *violated("common.no_repeat_write"),
    ),
    blocked("a request of another domain", changed(CANCEL, "domain", value="retail"), *violated("gate.input")),
    blocked(
        "a stale value that is still in the ledger",
        changed(CANCEL, "stale", value=[["appointments", SCHEDULED, "status"]]),
        *violated("gate.input"),
    ),
    blocked("a tool that is not declared", call("delete_patient", patient_id=PATIENT), *violated("gate.tool")),
    revised("an undeclared argument", argued(CANCEL, reason="ill"), *violated("gate.arguments")),
    revised("a price that is no number", argued(SUPPLIER, price_usd="3.25"), *violated("gate.arguments")),
    revised("a date that is no text", argued(SCHEDULE, date=20260309), *violated("gate.arguments")),
    blocked(
        "the same rejected call for the fourth time",
        changed(argued(SCHEDULE, time="11:00"), "session", "rejections", value=3),
        *violated("gate.loop", "telehealth.slot_in_schedule"),
    ),
]


if __name__ == "__main__":
    main("telehealth", [*ALLOWED, *REJECTED], __doc__)
