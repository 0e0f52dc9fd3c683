"""Record files to look at: conversations replayed with a recorder, as the sessions of a host would have left them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ledgeragent.conversation import Conversation
from ledgeragent.gate import Gate
from ledgeragent.records import JsonlRecorder, Recorder, Redact
from ledgeragent.replay import RecordedSession, Replay


class RecordedReplay(Replay):
    """A replay whose session keeps records."""

    def __init__(self, conversation: Conversation, gate: Gate, recorder: Recorder) -> None:
        super().__init__(conversation, gate)
        self.session = RecordedSession(
            gate,
            now=conversation.now or gate.domain.file.now,
            principal=conversation.principal,
            session_id=f"replay:{conversation.id}",
            recorder=recorder,
        )


def write_records(path: Path, conversations: Iterable[Conversation], gate: Gate, redact: Redact | None = None) -> Path:
    """Replay conversations of one domain and append their records to a file.

    Returns:
        The file.
    """
    recorder = JsonlRecorder(path, redact)
    try:
        for conversation in conversations:
            for _ in RecordedReplay(conversation, gate, recorder).steps():
                pass
    finally:
        recorder.close()
    return path
