"""A process that writes records and says which of them it was promised.

    writer_process.py RECORDS NAME COUNT MAX_BYTES [LIMIT]

Files are closed at MAX_BYTES; 0: never. With a limit, files of this process can grow no further than to so many bytes, as on a disk that is full for it. It says
`full` when it first meets the limit, and goes on.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from ledgeragent.contracts import RECORD, OutcomeRecord
from ledgeragent.errors import RecordError
from ledgeragent.records import JsonlRecorder, wall_clock


def main() -> None:
    """Write the records."""
    file, name, count, max_bytes, *limit = sys.argv[1:]
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit[0]), resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    recorder = JsonlRecorder(Path(file), max_bytes=int(max_bytes) or None)
    met = False
    for number in range(int(count)):
        request = f"{name}-{number}-" + "x" * (number % 7) * 500
        record = OutcomeRecord(
            contract=RECORD,
            kind="outcome",
            at=wall_clock(),
            session=name,
            call_id="c",
            request=request,
            outcome="executed",
        )
        try:
            recorder.write(record)
        except RecordError:
            if not met:
                print("full", flush=True)  # noqa: T201
            met = True
            continue
        print(request, flush=True)  # noqa: T201
    recorder.close()


if __name__ == "__main__":
    main()
