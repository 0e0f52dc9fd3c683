"""Keeps what Open Policy Agent's decision logs post to it: JSON lines in numbered files, on disk before it says so.

OPA uploads batches of decisions (`POST /logs`, a JSON array, gzipped) and sends a batch again until it is accepted, so
a batch can be kept twice (its `decision_id`s tell) but not lost in between. What is masked in a decision is masked
before it gets here, by OPA itself. Deleting or shipping finished files is left to the tools that a team has for that.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import re
import shutil
from pathlib import Path
from typing import Final

from aiohttp import web

from ledgeragent.errors import BadInput
from ledgeragent.recordfiles import sync_folder

_log = logging.getLogger(__name__)

TOKEN_VARIABLE: Final = "LEDGERAGENT_COLLECTOR_TOKEN"
MIN_TOKEN: Final = 16
"""Shortest token that is taken, in characters."""

MAX_BATCH: Final = 64 * 2**20
"""Largest batch that is taken, in bytes, unpacked."""

MIN_FREE: Final = 64 * 2**20
"""With less free space than this, in bytes, the health check fails."""

_NAME: Final = re.compile(r"decisions-(\d{6,})\.jsonl")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
# Only where an entry ends matters; a number of a thousand digits must not keep a batch out.
_decoder: Final = json.JSONDecoder(parse_int=len, parse_float=len)


class DecisionLog:
    """A folder of files `decisions-000001.jsonl`, each closed for good when it is full.

    Every process and every start begins a file of its own, so a line that a crash cut off stays the last of its file.
    """

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        """Make the folder if need be.

        Args:
            folder: where the files are.
            max_bytes: the size at which the next file is begun.

        Raises:
            BadInput: the folder cannot be made or written to.
        """
        self.folder = folder
        self._max_bytes = max_bytes
        self._file: int | None = None
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"decision log folder {folder}: {error.strerror}") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise BadInput(f"decision log folder {folder}: user {os.getuid()} cannot write there")

    def append(self, lines: list[bytes]) -> None:
        """Put lines on the disk, all or none of them.

        Args:
            lines: without line ends.

        Raises:
            OSError: they could not be written; what was is taken back.
        """
        data = b"".join(line + b"\n" for line in lines)
        if self._file is None:
            self._file = self._next()
        start = os.fstat(self._file).st_size
        try:
            _write_all(self._file, data)
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, start)
            raise
        if start + len(data) >= self._max_bytes:
            self.close()

    def close(self) -> None:
        """Close the current file; the next line begins another."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _next(self) -> int:
        names = (_NAME.fullmatch(path.name) for path in self.folder.iterdir())
        number = max((int(name[1]) for name in names if name), default=0)
        while True:
            number += 1
            try:
                file = os.open(
                    self.folder / f"decisions-{number:06}.jsonl",
                    os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL,
                    0o600,
                )
            except FileExistsError:  # another collector took the number
                continue
            sync_folder(self.folder)
            return file


def _write_all(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def lines_of(body: bytes) -> list[bytes]:
    """Take a batch apart, each entry as OPA wrote it.

    OPA would send a batch that is refused for its form again for ever, and nothing after it: one that is no JSON array
    is kept as one line, `{"unparsed": text}`.

    Args:
        body: the unpacked body of the request.

    Returns:
        One line per entry, without line ends.
    """
    text = body.decode("utf-8", "backslashreplace")
    try:
        entries = _entries(text)
    except (ValueError, RecursionError):
        _log.error("a batch that is no JSON array of %d characters is kept as it came", len(text))
        entries = [json.dumps({"unparsed": text})]
    # Outside of strings a line end is a space, and inside of them JSON has none.
    return [re.sub(r"[\r\n]", " ", entry).encode() for entry in entries]


def _entries(text: str) -> list[str]:
    place = _after(text, 0, "[")
    entries: list[str] = []
    closed = text.startswith("]", place)
    while not closed:
        _, end = _decoder.raw_decode(text, place)
        entries.append(text[place:end])
        place = _skip(text, end)
        closed = text.startswith("]", place)
        if not closed:
            place = _after(text, place, ",")
    if _skip(text, place + 1) != len(text):
        raise ValueError("more than one value")
    return entries


def _after(text: str, place: int, sign: str) -> int:
    place = _skip(text, place)
    if not text.startswith(sign, place):
        raise ValueError(f"no {sign}")
    return _skip(text, place + 1)


def _skip(text: str, place: int) -> int:
    space = _SPACE.match(text, place)
    assert space is not None
    return space.end()


class Collector:
    """The HTTP side: `POST /logs` for OPA, with the token, and `GET /health` for whoever watches.

    Args:
        log: where the decisions go.
        token: what OPA has to show.

    Raises:
        BadInput: the token is too short.
    """

    def __init__(self, log: DecisionLog, token: str) -> None:
        if len(token) < MIN_TOKEN:
            raise BadInput(f"set {TOKEN_VARIABLE} to a token of at least {MIN_TOKEN} characters, and give OPA the same")
        self._disk = log
        self._bearer = f"Bearer {token}".encode()
        self._one_at_a_time = asyncio.Lock()
        self._failed = False

    def app(self) -> web.Application:
        """The application, for `aiohttp.web.run_app` or a test."""
        app = web.Application(client_max_size=MAX_BATCH)
        app.router.add_post("/logs", self._take)
        app.router.add_get("/health", self._health)
        return app

    async def _take(self, request: web.Request) -> web.Response:
        shown = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(shown, self._bearer):
            return web.json_response({"error": "the bearer token is missing or another"}, status=401)
        body = await request.read()
        try:
            await self._keep(body)
        except OSError as error:
            self._failed = True
            _log.error("a batch of decisions could not be kept, OPA will send it again: %s", error)
            return web.json_response({"error": "the decisions could not be kept"}, status=503)
        self._failed = False
        return web.json_response({})

    async def _keep(self, body: bytes) -> None:
        async with self._one_at_a_time:
            await asyncio.to_thread(lambda: self._disk.append(lines_of(body)))

    async def _health(self, _: web.Request) -> web.Response:
        full = shutil.disk_usage(self._disk.folder).free < MIN_FREE
        return web.json_response({}, status=503 if full or self._failed else 200)


def serve(log: DecisionLog, *, token: str, host: str, port: int) -> None:
    """Take decision logs until the process is told to stop (SIGTERM, SIGINT); what was begun is finished.

    Raises:
        BadInput: the token is too short.
        OSError: the address cannot be listened on.
    """
    collector = Collector(log, token)
    try:
        web.run_app(collector.app(), host=host, port=port, access_log=None, print=None)
    finally:
        log.close()
