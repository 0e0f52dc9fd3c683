"""Parsers for the telehealth tools, which answer in prose.

Each reads a whole text, line by line and in order; a label that is missing, repeated, out of place or not known makes
the text no fact. What people wrote (complaints, notes, assessments) comes after the fields that decide, and can end
neither them nor the text. Errors name lines by number only: the lines are about patients.

Whether a value has the right form (ids, dates) is left to the ledger schema.
"""

from __future__ import annotations

import re
from typing import Any, Final

Json = dict[str, Any]

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FINDINGS: Final = ("Subjective", "Objective", "Assessment", "Plan")
_NAMED_ID: Final = r"(?P<name>[^()]+) \(ID: (?P<id>[^()\s]+)\)"
_AMOUNT: Final = r"\$(?P<value>[0-9]+\.[0-9]{2})"
_TEXT: Final = r"(?P<value>.*)"
_WORDS: Final = r"(?P<value>.+)"
_RECORD_LABELS: Final = ("Medical Record (ID", "Patient", "Provider", "Related Appointment", "Date", "Type")
_UNLABELLED: Final = rf"(?!({'|'.join(map(re.escape, (*_RECORD_LABELS, *_FINDINGS, 'Recommendations')))}):){_TEXT}"


class _Lines:
    """The lines of a text, taken one after the other."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._at = 0

    def take(self, pattern: str, what: str) -> dict[str, str]:
        """The groups of the next line, which must fit the pattern as a whole.

        Raises:
            ValueError: when it does not, or there is none.
        """
        found = self.take_if(pattern)
        if found is None:
            raise ValueError(f"line {self._at + 1}: {what} was expected")
        return found

    def take_if(self, pattern: str) -> dict[str, str] | None:
        """The groups of the next line if it fits the pattern as a whole; then it is taken."""
        match = None if self.is_done() else re.fullmatch(pattern, self._lines[self._at])
        if match is None:
            return None
        self._at += 1
        return match.groupdict()

    def value(self, label: str, pattern: str = _WORDS) -> str:
        """What the next line has after `label: `.

        Raises:
            ValueError: when the next line has another label or another kind of value.
        """
        return self.take(re.escape(label) + ": " + pattern, repr(label))["value"]

    def heading(self, words: str) -> None:
        """Take an empty line and a heading.

        Raises:
            ValueError: when something else stands there.
        """
        self.blank()
        self.take(re.escape(words), repr(words))

    def heading_if(self, pattern: str) -> dict[str, str] | None:
        """Take an empty line and a heading that fits, or neither."""
        start = self._at
        found = self.take_if(pattern) if self.take_if("") is not None else None
        if found is None:
            self._at = start
        return found

    def blank(self) -> None:
        """Take an empty line.

        Raises:
            ValueError: when it is not empty, or there is none.
        """
        self.take("", "an empty line")

    def is_done(self) -> bool:
        """Whether every line was taken."""
        return self._at == len(self._lines)

    def end(self) -> None:
        """Nothing may be left.

        Raises:
            ValueError: when there are lines that the text should not have.
        """
        if not self.is_done():
            raise ValueError(f"line {self._at + 1} should not be there")


def patient(text: str) -> Json:
    """Read `get_patient_details`.

    Args:
        text: the return.

    Returns:
        The profile; amounts in dollars, lists of conditions, allergies and medications as the text has them.

    Raises:
        ValueError: for a text that is not understood completely.
    """
    lines = _Lines(text)
    title = lines.take("Patient Details for " + _NAMED_ID, "the patient's name and id")
    profile: Json = {"patient_id": title["id"], "name": title["name"]}
    lines.heading("Demographics:")
    profile["date_of_birth"] = lines.value("- Date of Birth")
    profile["gender"] = lines.value("- Gender", _TEXT)
    profile["phone"] = lines.value("- Phone", _TEXT)
    profile["email"] = lines.value("- Email", _TEXT)
    lines.heading("Address:")
    profile["address"] = [lines.take("- " + _TEXT, "a line of the address")["value"] for _ in range(4)]
    lines.heading("Insurance:")
    profile["insurance"] = {
        "provider": lines.value("- Provider"),
        "policy_number": lines.value("- Policy Number"),
        "copay_primary": float(lines.value("- Primary Care Copay", _AMOUNT)),
        "copay_specialist": float(lines.value("- Specialist Copay", _AMOUNT)),
    }
    lines.heading("Medical History:")
    profile["conditions"] = lines.value("- Conditions")
    profile["allergies"] = lines.value("- Allergies")
    profile["current_medications"] = lines.value("- Current Medications")
    lines.heading("Emergency Contact:")
    contact = lines.take("- " + _WORDS, "the emergency contact")["value"]
    profile["emergency_contact"] = {"name": contact, "phone": lines.value("- Phone", _TEXT)}
    lines.end()
    return profile


def appointment(text: str) -> Json:
    """Read `get_appointment_details`.

    Args:
        text: the return.

    Returns:
        The appointment; type, status and reason of a cancellation as the tools write them (`pending_approval`), the
        copay in dollars. A prescription, a referral and a cancellation are None when there are none.

    Raises:
        ValueError: for a text that is not understood completely.
    """
    lines = _Lines(text)
    title = lines.take(r"Appointment Details \(ID: (?P<id>\S+)\)", "the appointment's id")
    found: Json = {"appointment_id": title["id"]}
    lines.blank()
    whose = lines.take("Patient: " + _NAMED_ID, "the patient's name and id")
    found |= {"patient_id": whose["id"], "patient_name": whose["name"]}
    whose = lines.take("Provider: " + _NAMED_ID, "the provider's name and id")
    found |= {"provider_id": whose["id"], "provider_name": whose["name"]}
    lines.heading("Appointment Information:")
    found["date"] = lines.value("- Date")
    found["time"] = lines.value("- Time")
    found["duration_minutes"] = int(lines.value("- Duration", "(?P<value>[0-9]+) minutes"))
    found["type"] = _code(lines.value("- Type"))
    found["status"] = _code(lines.value("- Status"))
    lines.heading("Clinical Information:")
    found["chief_complaint"] = lines.value("- Chief Complaint", _TEXT)
    found["notes"] = lines.value("- Notes", _TEXT)
    lines.heading("Billing Information:")
    found["insurance_authorization"] = lines.value("- Insurance Authorization")
    found["copay_amount"] = float(lines.value("- Copay Amount", _AMOUNT))
    lines.heading("Meeting Information:")
    found["meeting_link"] = lines.value("- Meeting Link")
    found["prescription_issued"] = _prescription(lines)
    referral = lines.heading_if("Referral from: " + _WORDS)
    found["referral_from"] = referral["value"] if referral is not None else None
    found["cancellation"] = _cancellation(lines)
    lines.end()
    return found


def _prescription(lines: _Lines) -> str | None:
    if lines.heading_if("Prescription Issued:") is None:
        return None
    medication = lines.take("- " + _WORDS, "the prescribed medication")["value"]
    return f"{medication}; {lines.take('- (?P<value>Quantity: .+)', repr('Quantity'))['value']}"


def _cancellation(lines: _Lines) -> Json | None:
    if lines.heading_if("Cancellation Details:") is None:
        return None
    return {"reason": _code(lines.value("- Reason")), "date": lines.value("- Date")}


def provider(text: str) -> Json:
    """Read `get_provider_details`.

    Args:
        text: the return.

    Returns:
        The provider; `schedule` has the times (HH:MM) of each weekday that is listed, the fee is in dollars.

    Raises:
        ValueError: for a text that is not understood completely.
    """
    lines = _Lines(text)
    found: Json = {"provider_id": lines.take(r"Provider Details \(ID: (?P<id>\S+)\)", "the provider's id")["id"]}
    lines.blank()
    found["name"] = lines.value("Name")
    found["specialty"] = lines.value("Specialty")
    found["license_number"] = lines.value("License Number")
    found["credentials"] = lines.value("Credentials")
    found["years_of_experience"] = int(lines.value("Years of Experience", "(?P<value>[0-9]+)"))
    lines.heading("Contact Information:")
    found["phone"] = lines.value("- Phone", _TEXT)
    found["email"] = lines.value("- Email", _TEXT)
    lines.blank()
    found["languages"] = lines.value("Languages")
    found["consultation_fee"] = float(lines.value("Consultation Fee", _AMOUNT))
    lines.heading("Weekly Schedule:")
    found["schedule"] = _schedule(lines)
    return found


def _schedule(lines: _Lines) -> dict[str, list[str]]:
    schedule: dict[str, list[str]] = {}
    while not lines.is_done():
        row = lines.take(f"- (?P<day>{'|'.join(_DAYS)}): (?P<times>.+)", "a weekday with its times")
        if row["day"] in schedule:
            raise ValueError(f"{row['day']} is listed twice")
        schedule[row["day"]] = [] if row["times"] == "Not available" else row["times"].split(", ")
    return schedule


def medical_record(text: str) -> Json:
    """Read `get_medical_record`.

    Args:
        text: the return.

    Returns:
        The record; the appointment, a finding or the recommendations are None when the text has none.

    Raises:
        ValueError: for a text that is not understood completely.
    """
    lines = _Lines(text)
    found: Json = {"record_id": lines.take(r"Medical Record \(ID: (?P<id>\S+)\)", "the record's id")["id"]}
    whose = lines.take("Patient: " + _NAMED_ID, "the patient's name and id")
    found |= {"patient_id": whose["id"], "patient_name": whose["name"]}
    whose = lines.take("Provider: " + _NAMED_ID, "the provider's name and id")
    found |= {"provider_id": whose["id"], "provider_name": whose["name"]}
    related = lines.take_if(r"Related Appointment: (?P<id>\S+) on \S+ at \S+")
    found["appointment_id"] = related["id"] if related is not None else None
    found["date"] = lines.value("Date")
    found["type"] = lines.value("Type")
    for label in _FINDINGS:
        found[label.lower()] = _finding(lines, label)
    found["recommendations"] = _recommendations(lines)
    lines.end()
    return found


def _finding(lines: _Lines, label: str) -> str | None:
    """What was written under a label; it may run over several lines, but not over anything that looks like a label."""
    first = lines.take_if(f"{label}: {_TEXT}")
    if first is None:
        return None
    words = [first["value"]]
    while (more := lines.take_if(_UNLABELLED)) is not None:
        words.append(more["value"])
    return "\n".join(words)


def _recommendations(lines: _Lines) -> list[str] | None:
    if lines.take_if("Recommendations:") is None:
        return None
    found = [lines.take("- " + _WORDS, "a recommendation")["value"]]
    while (more := lines.take_if("- " + _WORDS)) is not None:
        found.append(more["value"])
    return found


def medical_records(text: str) -> list[Json]:
    """Read `list_patient_medical_records`.

    Args:
        text: the return. It does not name the patient: the call does.

    Returns:
        One row per record: its id, date, appointment (None when it has none) and medications.

    Raises:
        ValueError: for a text that is not understood completely.
    """
    lines = _Lines(text)
    lines.take(r"Medical records \(newest first\):", "the heading of the list")
    rows: list[Json] = []
    while not lines.is_done() or not rows:
        row = lines.take(
            r"record_id=(?P<record_id>\S+) \| date=(?P<date>\S+) \| appointment_id=(?P<appointment_id>\S+)"
            r" \| medications=(?P<medications>[^|]+)",
            "a medical record",
        )
        appointment_id = None if row["appointment_id"] == "None" else row["appointment_id"]
        rows.append({**row, "appointment_id": appointment_id})
    return rows


def suppliers(text: str) -> Json:
    """Read `list_medication_suppliers`.

    Args:
        text: the return.

    Returns:
        The medication and its quotes: company, country, both as the list shows them (`seller`), brand, and the price
        in dollars.

    Raises:
        ValueError: for a text that is not understood completely.
    """
    lines = _Lines(text)
    medication = lines.take("Suppliers for (?P<value>.+):", "the medication")["value"]
    quotes: list[Json] = []
    while not lines.is_done() or not quotes:
        row = lines.take(
            r"(?P<seller>(?P<company>[^|]+) \((?P<country>[^()|]+)\)) \| brand=(?P<brand>[^|]+)"
            r" \| price_usd=(?P<price_usd>[0-9]+\.[0-9]{2})",
            "a supplier with brand and price",
        )
        quotes.append({**row, "price_usd": float(row["price_usd"])})
    return {"medication": medication, "quotes": quotes}


def _code(words: str) -> str:
    """A state as the tools write it: `Pending Approval` is `pending_approval`."""
    return words.lower().replace(" ", "_")
