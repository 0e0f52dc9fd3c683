"""What every way of talking to an OPA server shares: connecting within a budget, TLS files that change, and words for
errors that tell nothing of what was sent or answered.

How requests are written and answers read is the business of `transport` and `direct`.
"""

from __future__ import annotations

import contextlib
import ipaddress
import queue
import socket
import threading
import time
from pathlib import Path
from typing import Any, Final

from ledgeragent.engine.base import MAX_ANSWER_BYTES
from ledgeragent.errors import EngineAnswer, EngineUnreachable

CHUNK: Final = 65_536
"""Bytes read at once."""
_MAX_CAUSES: Final = 5


def time_left(deadline: float) -> float:
    """Seconds until a deadline of `time.monotonic`.

    Raises:
        TimeoutError: it has passed.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the budget is spent")
    return left


def file_states(files: list[str], where: str) -> list[tuple[int, int, int]]:
    """What shows whether TLS files were replaced.

    Raises:
        EngineUnreachable: one cannot be read, so that no connection can be made.
    """
    states = []
    for file in files:
        try:
            found = Path(file).stat()
        except OSError as error:
            said = f"the TLS file {file} cannot be read: {error.strerror}"
            raise EngineUnreachable(f"{where} cannot be reached, as {said}") from None
        states.append((found.st_ino, found.st_mtime_ns, found.st_size))
    return states


def connect_to(host: str, port: int, deadline: float) -> socket.socket:
    """A connection to the first address of the host that takes one; none of them can use up the others' time."""
    addresses = _looked_up(host, port, deadline)
    problem: OSError = OSError("the name has no address")
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        candidate = socket.socket(family, kind, protocol)
        try:
            candidate.settimeout(time_left(deadline) / (len(addresses) - number))
            candidate.connect(address)
        except OSError as error:
            problem = error
            candidate.close()
        else:
            return candidate
    raise problem


def _looked_up(host: str, port: int, deadline: float) -> list[Any]:
    """The host's addresses. A name is looked up in a thread, as no name service can be given a limit of time."""
    if _is_address(host):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    answer: queue.SimpleQueue[list[Any] | OSError] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answer.put(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
        except OSError as error:
            answer.put(error)

    threading.Thread(target=look_up, name="ledgeragent-name-service", daemon=True).start()
    try:
        found = answer.get(timeout=time_left(deadline))
    except queue.Empty:
        raise TimeoutError(f"the name service gave no address for {host}") from None
    if isinstance(found, OSError):
        raise found
    return found


def _is_address(host: str) -> bool:
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return False


def error_named(error: BaseException) -> str:
    """What kept a connection from coming about, in the system's words; of what was sent over it, only the error's name.

    Errors about an answer quote it.
    """
    seen: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if isinstance(seen, OSError) and seen.strerror:
            return f"{type(seen).__name__}: {seen.strerror}"
        inner = next((one for one in getattr(seen, "args", ()) if isinstance(one, BaseException)), None)
        seen = getattr(seen, "os_error", None) or (seen.__cause__ if seen is not None else None) or inner
        if seen is None:
            break
    return type(error).__name__


def check_size(size: int, where: str) -> None:
    """Refuse an answer that goes on and on.

    Raises:
        EngineAnswer: it has more than `MAX_ANSWER_BYTES`.
    """
    if size > MAX_ANSWER_BYTES:
        raise EngineAnswer(f"{where} answered with more than {MAX_ANSWER_BYTES} bytes; a decision is far smaller")
