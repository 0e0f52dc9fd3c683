"""The telehealth tools' prose: what is understood, what is refused, what becomes a fact, and what a session makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgeragent.contracts import ReadTool
from ledgeragent.domain import Domain
from ledgeragent.engine import Engine
from ledgeragent.gate import Gate
from ledgeragent.ledger import Absorbed, Ledger, Provenance
from ledgeragent.paths import NOTHING
from ledgeragent.prose import telehealth as prose
from ledgeragent.session import Call, Review, Session

JSON = Any
Parser = Callable[[str], JSON]

PATIENT = """Patient Details for Mira Holt (ID: mira_holt_2041)

Demographics:
- Date of Birth: 1988-02-11
- Gender: Female
- Phone: (555) 010-2041
- Email: mira.holt@example.com

Address:
- 12 Orchard Row
-\x20
- Madison, WI 53703
- USA

Insurance:
- Provider: Lakeside Mutual
- Policy Number: LM-2041
- Primary Care Copay: $20.00
- Specialist Copay: $45.50

Medical History:
- Conditions: Hyperlipidemia
- Allergies: None
- Current Medications: Ezetimibe 10mg once daily

Emergency Contact:
- Jonas Holt (Brother)
- Phone: (555) 010-3307"""

APPOINTMENT = """Appointment Details (ID: APPT501)

Patient: Mira Holt (ID: mira_holt_2041)
Provider: Dr. Weil - Cardiology (ID: dr_weil_cardiology)

Appointment Information:
- Date: 2026-03-09
- Time: 10:30
- Duration: 45 minutes
- Type: Specialist Consultation
- Status: Pending Approval

Clinical Information:
- Chief Complaint: Palpitations (at night)
- Notes:\x20

Billing Information:
- Insurance Authorization: PENDING
- Copay Amount: $45.50

Meeting Information:
- Meeting Link: https://meet.example.com/room/APPT501"""

CLOSED_APPOINTMENT = (
    APPOINTMENT
    + """

Prescription Issued:
- Ezetimibe 10mg once daily
- Quantity: 30, Refills: 2

Referral from: dr_amadi_primary

Cancellation Details:
- Reason: Patient Cancelled
- Date: 2026-03-01"""
)

PROVIDER = """Provider Details (ID: dr_weil_cardiology)

Name: MD, FACC Ruth Weil
Specialty: Cardiology
License Number: MD-77
Credentials: MD, FACC
Years of Experience: 19

Contact Information:
- Phone: (555) 010-7700
- Email: r.weil@example.com

Languages: English, German
Consultation Fee: $210.00

Weekly Schedule:
- Monday: 09:00, 10:30
- Wednesday: Not available
- Saturday: 10:00"""

RECORD = """Medical Record (ID: REC301)
Patient: Mira Holt (ID: mira_holt_2041)
Provider: MD, FACC Ruth Weil (ID: dr_weil_cardiology)
Related Appointment: APPT499 on 2026-01-12 at 09:00
Date: 2026-01-12
Type: follow_up
Subjective: Feels well.
Objective: BP 128/82 (sitting).
Assessment: 1. Hyperlipidemia
2. Palpitations, benign

Plan: Continue.
Recommendations:
- Walk daily
- Less salt"""

SHORT_RECORD = """Medical Record (ID: REC302)
Patient: Mira Holt (ID: mira_holt_2041)
Provider: Ruth Weil (ID: dr_weil_cardiology)
Date: 2026-02-01
Type: operative_note"""

RECORDS = """Medical records (newest first):
record_id=REC302 | date=2026-02-01 | appointment_id=None | medications=None recorded
record_id=REC301 | date=2026-01-12 | appointment_id=APPT499 | medications=Ezetimibe, Sertraline"""

SUPPLIERS = """Suppliers for Ezetimibe:
Delta Lipids (India) | brand=Ezedelta | price_usd=3.25
Maple (Heart) Ltd (Canada) | brand=Eze Maple | price_usd=4.90"""

TEXTS: dict[str, tuple[Parser, str]] = {
    "a patient": (prose.patient, PATIENT),
    "an appointment": (prose.appointment, APPOINTMENT),
    "a closed appointment": (prose.appointment, CLOSED_APPOINTMENT),
    "a provider": (prose.provider, PROVIDER),
    "a medical record": (prose.medical_record, RECORD),
    "a short medical record": (prose.medical_record, SHORT_RECORD),
    "a list of medical records": (prose.medical_records, RECORDS),
    "a list of suppliers": (prose.suppliers, SUPPLIERS),
}
EACH = pytest.mark.parametrize(("parse", "text"), TEXTS.values(), ids=TEXTS)

MAY_BE_MISSING = {
    "a closed appointment": {"Referral from: dr_amadi_primary"},
    "a provider": {"- Monday: 09:00, 10:30", "- Wednesday: Not available", "- Saturday: 10:00"},
    "a medical record": {
        "Related Appointment: APPT499 on 2026-01-12 at 09:00",
        "Subjective: Feels well.",
        "Objective: BP 128/82 (sitting).",
        "Assessment: 1. Hyperlipidemia",
        "2. Palpitations, benign",
        "",
        "Plan: Continue.",
        "Recommendations:",
        "- Walk daily",
        "- Less salt",
    },
    "a list of medical records": set(RECORDS.splitlines()[1:]),
    "a list of suppliers": set(SUPPLIERS.splitlines()[1:]),
}
"""Lines a text can do without: fields that not every text has, what people wrote, rows of a list."""


def test_a_patient_is_read() -> None:
    assert prose.patient(PATIENT) == {
        "patient_id": "mira_holt_2041",
        "name": "Mira Holt",
        "date_of_birth": "1988-02-11",
        "gender": "Female",
        "phone": "(555) 010-2041",
        "email": "mira.holt@example.com",
        "address": ["12 Orchard Row", "", "Madison, WI 53703", "USA"],
        "insurance": {
            "provider": "Lakeside Mutual",
            "policy_number": "LM-2041",
            "copay_primary": 20.0,
            "copay_specialist": 45.5,
        },
        "conditions": "Hyperlipidemia",
        "allergies": "None",
        "current_medications": "Ezetimibe 10mg once daily",
        "emergency_contact": {"name": "Jonas Holt (Brother)", "phone": "(555) 010-3307"},
    }


def test_an_appointment_is_read() -> None:
    open_appointment = {
        "appointment_id": "APPT501",
        "patient_id": "mira_holt_2041",
        "patient_name": "Mira Holt",
        "provider_id": "dr_weil_cardiology",
        "provider_name": "Dr. Weil - Cardiology",
        "date": "2026-03-09",
        "time": "10:30",
        "duration_minutes": 45,
        "type": "specialist_consultation",
        "status": "pending_approval",
        "chief_complaint": "Palpitations (at night)",
        "notes": "",
        "insurance_authorization": "PENDING",
        "copay_amount": 45.5,
        "meeting_link": "https://meet.example.com/room/APPT501",
        "prescription_issued": None,
        "referral_from": None,
        "cancellation": None,
    }

    assert prose.appointment(APPOINTMENT) == open_appointment
    assert prose.appointment(CLOSED_APPOINTMENT) == {
        **open_appointment,
        "prescription_issued": "Ezetimibe 10mg once daily; Quantity: 30, Refills: 2",
        "referral_from": "dr_amadi_primary",
        "cancellation": {"reason": "patient_cancelled", "date": "2026-03-01"},
    }


def test_a_provider_is_read() -> None:
    assert prose.provider(PROVIDER) == {
        "provider_id": "dr_weil_cardiology",
        "name": "MD, FACC Ruth Weil",
        "specialty": "Cardiology",
        "license_number": "MD-77",
        "credentials": "MD, FACC",
        "years_of_experience": 19,
        "phone": "(555) 010-7700",
        "email": "r.weil@example.com",
        "languages": "English, German",
        "consultation_fee": 210.0,
        "schedule": {"Monday": ["09:00", "10:30"], "Wednesday": [], "Saturday": ["10:00"]},
    }


def test_a_medical_record_is_read() -> None:
    whose = {
        "patient_id": "mira_holt_2041",
        "patient_name": "Mira Holt",
        "provider_id": "dr_weil_cardiology",
    }

    assert prose.medical_record(RECORD) == {
        **whose,
        "record_id": "REC301",
        "provider_name": "MD, FACC Ruth Weil",
        "appointment_id": "APPT499",
        "date": "2026-01-12",
        "type": "follow_up",
        "subjective": "Feels well.",
        "objective": "BP 128/82 (sitting).",
        "assessment": "1. Hyperlipidemia\n2. Palpitations, benign\n",
        "plan": "Continue.",
        "recommendations": ["Walk daily", "Less salt"],
    }
    assert prose.medical_record(SHORT_RECORD) == {
        **whose,
        "record_id": "REC302",
        "provider_name": "Ruth Weil",
        "appointment_id": None,
        "date": "2026-02-01",
        "type": "operative_note",
        "subjective": None,
        "objective": None,
        "assessment": None,
        "plan": None,
        "recommendations": None,
    }


def test_a_list_of_medical_records_is_read() -> None:
    assert prose.medical_records(RECORDS) == [
        {"record_id": "REC302", "date": "2026-02-01", "appointment_id": None, "medications": "None recorded"},
        {
            "record_id": "REC301",
            "date": "2026-01-12",
            "appointment_id": "APPT499",
            "medications": "Ezetimibe, Sertraline",
        },
    ]


def test_a_list_of_suppliers_is_read() -> None:
    assert prose.suppliers(SUPPLIERS) == {
        "medication": "Ezetimibe",
        "quotes": [
            {
                "company": "Delta Lipids",
                "country": "India",
                "seller": "Delta Lipids (India)",
                "brand": "Ezedelta",
                "price_usd": 3.25,
            },
            {
                "company": "Maple (Heart) Ltd",
                "country": "Canada",
                "seller": "Maple (Heart) Ltd (Canada)",
                "brand": "Eze Maple",
                "price_usd": 4.9,
            },
        ],
    }


@pytest.mark.parametrize("what", TEXTS)
def test_no_line_can_be_missing(what: str) -> None:
    parse, text = TEXTS[what]
    lines = text.split("\n")
    optional = MAY_BE_MISSING.get(what, set())
    for at, line in enumerate(lines):
        if line not in optional:
            with pytest.raises(ValueError, match=r"expected|should not be there"):
                parse("\n".join([*lines[:at], *lines[at + 1 :]]))


@EACH
def test_no_label_can_be_there_twice(parse: Parser, text: str) -> None:
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if ": " in line and "record_id=" not in line:
            for place in range(at + 1, len(lines) + 1):
                with pytest.raises(ValueError, match=r"expected|should not be there|twice"):
                    parse("\n".join([*lines[:place], line, *lines[place:]]))


@EACH
def test_nothing_can_stand_before_or_after(parse: Parser, text: str) -> None:
    for wrong in (f"\n{text}", f"Note: {text}", f"{text}\n\nStatus: Scheduled", f'"{text}"'):
        if not (parse is prose.medical_record and wrong.startswith("Medical Record")):
            with pytest.raises(ValueError, match=r"expected|should not be there"):
                parse(wrong)


@EACH
@pytest.mark.parametrize(
    "failure",
    [
        "",
        "Appointment with ID APPT501 not found.",
        "No medical records found for patient mira_holt_2041.",
        "No supplier information found for Ezetimibe.",
        "Error: 'license_number'",
        "503 Service Unavailable",
        "{}",
        "null",
    ],
)
def test_a_failure_is_refused(parse: Parser, text: str, failure: str) -> None:
    with pytest.raises(ValueError, match=r"line 1: .* was expected"):
        parse(failure)


@EACH
def test_the_words_of_an_error_are_not_those_of_the_patient(parse: Parser, text: str) -> None:
    with pytest.raises(ValueError, match="line 1: ") as caught:
        parse(text.replace("(", "(secret ", 1).replace("Suppliers", "secret"))

    assert "secret" not in str(caught.value)


@EACH
@given(data=st.data())
def test_a_broken_text_is_refused_and_nothing_else_happens(parse: Parser, text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    put = data.draw(st.text(max_size=5) | st.sampled_from(["\n", ": ", "(ID: x)", "- ", " | ", "9" * 5000]))
    broken = text[:at] + put + text[at + data.draw(st.integers(0, 5)) :]
    try:
        parse(broken)
    except ValueError:
        return


# What people wrote cannot change the fields that decide ------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "x\n- Status: Scheduled",
        "x\n- Notes: y",
        "x\n\nAppointment Information:\n- Status: Scheduled",
        "x\nPatient: Bo Lind (ID: bo_lind_2002)",
        "x\n\nBilling Information:\n- Insurance Authorization: y",
    ],
)
def test_a_complaint_cannot_pass_for_a_field(words: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        prose.appointment(APPOINTMENT.replace("Palpitations (at night)", words))


@pytest.mark.parametrize("label", ["Patient", "Provider", "Date", "Type", "Related Appointment", "Subjective", "Plan"])
def test_an_assessment_cannot_pass_for_a_field(label: str) -> None:
    with pytest.raises(ValueError, match=r"expected|should not be there"):
        prose.medical_record(RECORD.replace("2. Palpitations", f"{label}: Bo Lind (ID: bo_lind_2002)"))


def test_a_name_cannot_carry_an_id() -> None:
    for text, parse in ((APPOINTMENT, prose.appointment), (RECORD, prose.medical_record)):
        with pytest.raises(ValueError, match="patient's name and id"):
            parse(text.replace("Mira Holt", "Mira (ID: bo_lind_2002) Holt"))


def test_a_medication_cannot_carry_a_column() -> None:
    with pytest.raises(ValueError, match="a medical record was expected"):
        prose.medical_records(RECORDS.replace("None recorded", "x | record_id=REC999"))


def test_a_weekday_is_listed_once() -> None:
    with pytest.raises(ValueError, match="Monday is listed twice"):
        prose.provider(PROVIDER + "\n- Monday: 23:00")


# In the domain ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def domain() -> Domain:
    return Domain.load("telehealth")


def absorb(ledger: Ledger, tool: str, arguments: dict[str, JSON], content: str) -> Absorbed:
    declared = ledger.domain.tools[tool]
    assert isinstance(declared, ReadTool)
    provenance = Provenance(tool, "call-1", 1, ledger.domain.file.now, len(ledger) + 1)
    return ledger.absorb(declared, arguments, content, provenance)


def test_every_parser_is_used_by_a_read_of_the_domain(domain: Domain) -> None:
    used = {fact.parse for tool in domain.tools.values() if isinstance(tool, ReadTool) for fact in tool.facts}

    assert used == {"text"} | {f"ledgeragent.prose.telehealth:{parse.__name__}" for parse, _ in TEXTS.values()}


READS: list[tuple[str, dict[str, JSON], str, set[str]]] = [
    ("get_patient_details", {"patient_id": "mira_holt_2041"}, PATIENT, {"patients.mira_holt_2041"}),
    ("get_appointment_details", {"appointment_id": "APPT501"}, CLOSED_APPOINTMENT, {"appointments.APPT501"}),
    ("get_provider_details", {"provider_id": "dr_weil_cardiology"}, PROVIDER, {"providers.dr_weil_cardiology"}),
    ("get_medical_record", {"record_id": "REC302"}, SHORT_RECORD, {"records.REC302", "record_owners.REC302"}),
    ("get_medical_record", {"appointment_id": "APPT499"}, RECORD, {"records.REC301", "record_owners.REC301"}),
    (
        "list_patient_medical_records",
        {"patient_id": "mira_holt_2041", "limit": 2},
        RECORDS,
        {"record_owners.REC302", "record_owners.REC301"},
    ),
    (
        "list_medication_suppliers",
        {"medication": "Ezetimibe"},
        SUPPLIERS,
        {"quotes.Ezetimibe.Delta Lipids (India).Ezedelta", "quotes.Ezetimibe.Maple (Heart) Ltd (Canada).Eze Maple"},
    ),
]


@pytest.mark.parametrize(("tool", "arguments", "text", "paths"), READS)
def test_a_read_becomes_facts(
    domain: Domain, tool: str, arguments: dict[str, JSON], text: str, paths: set[str]
) -> None:
    absorbed = absorb(Ledger(domain), tool, arguments, text)

    assert {".".join(path) for path in absorbed.paths} == paths
    assert absorbed.problems == ()


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("get_patient_details", {"patient_id": "bo_lind_2002"}, PATIENT),
        ("get_appointment_details", {"appointment_id": "APPT502"}, APPOINTMENT),
        ("get_provider_details", {"provider_id": "dr_amadi_primary"}, PROVIDER),
        ("get_medical_record", {"record_id": "REC302"}, RECORD),
    ],
)
def test_the_return_of_another_call_is_no_fact(
    domain: Domain, tool: str, arguments: dict[str, JSON], text: str
) -> None:
    ledger = Ledger(domain)
    absorbed = absorb(ledger, tool, arguments, text)

    assert absorbed.paths == ()
    assert ["is not the one it was read as" in problem.reason for problem in absorbed.problems] == [True]
    assert len(ledger) == 0


def test_the_record_of_another_appointment_is_no_fact(domain: Domain) -> None:
    ledger = Ledger(domain)
    absorb(ledger, "get_medical_record", {"appointment_id": "APPT500"}, RECORD)
    absorb(ledger, "get_medical_record", {"appointment_id": "APPT499"}, SHORT_RECORD)

    assert len(ledger) == 0


def test_the_call_says_whose_records_a_list_holds(domain: Domain) -> None:
    ledger = Ledger(domain)
    absorb(ledger, "list_patient_medical_records", {"patient_id": "mira_holt_2041"}, RECORDS)

    assert ledger.lookup(("record_owners", "REC301")) == "mira_holt_2041"
    assert ledger.lookup(("records", "REC301")) is NOTHING


def test_quotes_of_several_lists_accumulate_and_a_new_price_replaces_the_old_one(domain: Domain) -> None:
    ledger = Ledger(domain)
    absorb(ledger, "list_medication_suppliers", {"medication": "Ezetimibe"}, SUPPLIERS)
    cheaper = "Suppliers for Ezetimibe:\nDelta Lipids (India) | brand=Ezedelta | price_usd=3.10"
    absorb(ledger, "list_medication_suppliers", {"medication": "Ezetimibe", "country_filter": "India"}, cheaper)

    quotes = ledger.tree()["quotes"]["Ezetimibe"]
    assert quotes["Delta Lipids (India)"]["Ezedelta"]["price_usd"] == 3.1
    assert quotes["Maple (Heart) Ltd (Canada)"]["Eze Maple"]["price_usd"] == 4.9


def test_two_prices_for_one_quote_are_no_fact(domain: Domain) -> None:
    ledger = Ledger(domain)
    absorbed = absorb(
        ledger,
        "list_medication_suppliers",
        {"medication": "Ezetimibe"},
        SUPPLIERS + "\nDelta Lipids (India) | brand=Ezedelta | price_usd=0.01",
    )

    assert absorbed.paths == ()
    assert len(absorbed.problems) == 1
    assert len(ledger) == 0


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("get_appointment_details", {"appointment_id": "APPT501"}, APPOINTMENT.replace("2026-03-09", "next week")),
        ("get_appointment_details", {"appointment_id": "APPT501"}, APPOINTMENT.replace("mira_holt_2041", "Unknown")),
        ("get_provider_details", {"provider_id": "dr_weil_cardiology"}, PROVIDER.replace("10:30", "half past ten")),
        ("get_medical_record", {"record_id": "REC301"}, RECORD.replace("mira_holt_2041", "503")),
    ],
)
def test_a_value_of_the_wrong_form_is_no_fact(domain: Domain, tool: str, arguments: dict[str, JSON], text: str) -> None:
    ledger = Ledger(domain)
    absorbed = absorb(ledger, tool, arguments, text)

    assert absorbed.problems != ()
    assert len(ledger) == 0


@pytest.mark.parametrize(
    "text",
    [
        "No patient found with email: mira.holt@example.com",
        "No patient found with name: Mira Holt and DOB: 1988-02-11",
        "503 Service Unavailable",
        "Mira Holt",
        "",
    ],
)
def test_a_look_up_that_finds_nobody_proves_nobody(domain: Domain, text: str) -> None:
    ledger = Ledger(domain)
    absorb(ledger, "find_patient_by_email", {"email": "mira.holt@example.com"}, text)

    assert len(ledger) == 0


FAILURES = [
    "Error: 'license_number'",
    "No patient found with email: mira.holt@example.com",
    "No providers found with specialty: Dentistry",
    "No appointments found for patient mira_holt_2041 with status scheduled.",
    "No medical record found for appointment ID APPT501.",
    "No supplier information found for Ezetimib.",
    "No suppliers in Peru for Ezetimibe.",
    "No regimen optimization data available for patient mira_holt_2041.",
    "Patient with ID mira_holt_2041 not found.",
    "Provider with ID dr_weil_cardiology not found.",
    "Provider dr_weil_cardiology does not work on Sunday.",
    "Provider dr_weil_cardiology is not available at 11:00 on Monday. Available times: 09:00",
    "Provider dr_weil_cardiology already has an appointment scheduled at 10:30 on 2026-03-09.",
    "Appointment with ID APPT501 not found.",
    "Appointment APPT501 is already cancelled.",
    "Cannot cancel appointment APPT501 - appointment has already been completed.",
    "Cannot reschedule appointment APPT501 - appointment has been cancelled.",
    "Medical record with ID REC301 not found.",
    "Invalid date format: next week. Please use YYYY-MM-DD format.",
    "Please provide a record_id or appointment_id to look up the medical record.",
]


@pytest.mark.parametrize("text", FAILURES)
def test_a_return_that_says_no_reads_as_a_failure(domain: Domain, text: str) -> None:
    assert any(pattern.match(text) for pattern in domain.failures)


@pytest.mark.parametrize(
    "text",
    [text for _, text in TEXTS.values()]
    + [
        "mira_holt_2041",
        "Appointment successfully cancelled.\n\nAppointment ID: APPT501",
        "Appointments for Mira Holt (ID: mira_holt_2041)\n- APPT501: not found",
        "No documented high-risk interactions found for the supplied medications.",
        '{"record_id": "REC301", "notes": [{"note": "Error"}]}',
    ],
)
def test_a_return_that_tells_something_does_not(domain: Domain, text: str) -> None:
    assert not any(pattern.match(text) for pattern in domain.failures)


# In a session ----------------------------------------------------------------------------------------------------


BY_EMAIL = {"email": "mira.holt@example.com"}
BY_NAME = {"first_name": "Mira", "last_name": "Holt", "date_of_birth": "1988-02-11"}


@pytest.fixture
def session(domain: Domain, embedded: Engine) -> Session:
    return Session(Gate(domain, embedded), now=domain.file.now)


def read(session: Session, tool: str, arguments: dict[str, JSON], content: str) -> None:
    session.observe(session.issue(tool, arguments).call_id, content)


def propose(session: Session, tool: str, **arguments: JSON) -> Review:
    return session.review([Call(tool, arguments)])[0]


@pytest.mark.parametrize(
    ("tool", "arguments"), [("find_patient_by_email", BY_EMAIL), ("find_patient_by_name_dob", BY_NAME)]
)
def test_a_look_up_proves_who_the_patient_is(session: Session, tool: str, arguments: dict[str, JSON]) -> None:
    read(session, tool, arguments, "mira_holt_2041")

    assert session.principal is not None
    assert (session.principal.id, session.principal.source) == ("mira_holt_2041", "proof")


@pytest.mark.parametrize(
    ("tool", "arguments"), [("find_patient_by_email", BY_EMAIL), ("find_patient_by_name_dob", BY_NAME)]
)
def test_a_look_up_with_what_the_profile_told_proves_nothing(
    session: Session, tool: str, arguments: dict[str, JSON]
) -> None:
    read(session, "get_patient_details", {"patient_id": "mira_holt_2041"}, PATIENT)
    read(session, tool, arguments, "mira_holt_2041")

    assert session.principal is None


def test_a_look_up_after_one_with_a_slip_in_it_still_proves(session: Session) -> None:
    slip = {**BY_NAME, "date_of_birth": "1988-11-02"}
    read(session, "find_patient_by_name_dob", slip, "No patient found with name: Mira Holt and DOB: 1988-11-02")
    read(session, "find_patient_by_name_dob", BY_NAME, "mira_holt_2041")

    assert session.principal is not None


def test_the_first_proof_counts(session: Session) -> None:
    read(session, "find_patient_by_email", BY_EMAIL, "mira_holt_2041")
    read(session, "find_patient_by_email", {"email": "bo.lind@example.com"}, "bo_lind_2002")

    assert session.principal is not None
    assert session.principal.id == "mira_holt_2041"


def test_the_gate_names_the_reads_that_a_move_waits_for(session: Session) -> None:
    read(session, "find_patient_by_email", BY_EMAIL, "mira_holt_2041")
    move = {"appointment_id": "APPT501", "new_date": "2026-03-14", "new_time": "10:00"}

    first = propose(session, "reschedule_appointment", **move)
    read(session, "get_appointment_details", {"appointment_id": "APPT501"}, APPOINTMENT)
    second = propose(session, "reschedule_appointment", **move)
    read(session, "get_provider_details", {"provider_id": "dr_weil_cardiology"}, PROVIDER)
    third = propose(session, "reschedule_appointment", **move)

    assert [(review.verdict, [str(one) for one in review.reads]) for review in (first, second, third)] == [
        ("revise", ['get_appointment_details(appointment_id="APPT501")']),
        ("revise", ['get_provider_details(provider_id="dr_weil_cardiology")']),
        ("allow", []),
    ]


def test_a_cancelled_appointment_is_read_again_and_then_refused(session: Session) -> None:
    read(session, "find_patient_by_email", BY_EMAIL, "mira_holt_2041")
    read(session, "get_appointment_details", {"appointment_id": "APPT501"}, APPOINTMENT)
    cancelled = propose(session, "cancel_appointment", appointment_id="APPT501")
    assert cancelled.ticket is not None
    session.execute(cancelled.ticket, lambda *_: "Appointment successfully cancelled.")
    read(session, "get_provider_details", {"provider_id": "dr_weil_cardiology"}, PROVIDER)
    move = {"appointment_id": "APPT501", "new_date": "2026-03-14", "new_time": "10:00"}

    stale = propose(session, "reschedule_appointment", **move)
    read(
        session,
        "get_appointment_details",
        {"appointment_id": "APPT501"},
        APPOINTMENT.replace("Pending Approval", "Cancelled"),
    )
    refused = propose(session, "reschedule_appointment", **move)

    assert stale.verdict == "revise"
    assert "appointments.APPT501.status" in stale.message
    assert refused.verdict == "block"
    assert 'The status of appointment APPT501 is "cancelled".' in refused.message


def test_a_supplier_is_entered_once_it_was_listed(session: Session) -> None:
    read(session, "find_patient_by_email", BY_EMAIL, "mira_holt_2041")
    read(session, "list_patient_medical_records", {"patient_id": "mira_holt_2041"}, RECORDS)
    change = {
        "record_id": "REC301",
        "medication": "Ezetimibe 10 mg",
        "supplier_company": "Maple (Heart) Ltd",
        "brand_name": "Eze Maple",
        "price_usd": 4.9,
    }

    unlisted = propose(session, "update_prescription_supplier", **change)
    read(session, "list_medication_suppliers", {"medication": "Ezetimibe"}, SUPPLIERS)
    listed = propose(session, "update_prescription_supplier", **change)

    assert unlisted.verdict == "revise"
    assert [str(one) for one in unlisted.reads] == ['list_medication_suppliers(medication="Ezetimibe 10 mg")']
    assert listed.verdict == "allow"
