"""Runs `ledgeragent chat` in this process, as a pipe would, on an engine that all tests share."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ledgeragent import Engine, cli, cli_gates
from support.engines import Meddled


class Done:
    """What a command left behind."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def lines(self) -> list[str]:
        """What was said, without the header and the summary."""
        told = self.out[: self.out.rindex("judged call")].splitlines()
        return [line.rstrip() for line in told[1:-2]]


class Chat:
    """Runs the command in this process."""

    def __init__(
        self, folder: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str], engine: Engine
    ) -> None:
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "FORCE_COLOR"):
            patch.delenv(name, raising=False)
        patch.chdir(folder)
        # One engine for all: it is sound, and the command must not close it.
        patch.setattr(cli_gates, "open_engine", lambda *_, **__: Meddled(engine, lambda _, answer: answer))
        self.folder, self.patch, self.capture = folder, patch, capture

    def __call__(self, *arguments: str, domain: str = "retail", stdin: str = "", columns: int = 160) -> Done:
        text = self.folder / "stdin"
        text.write_text(stdin, encoding="utf-8", errors="surrogateescape")
        self.patch.setenv("COLUMNS", str(columns))
        self.patch.setattr(sys, "argv", ["ledgeragent", "chat", "--domain", domain, "--engine", "embedded", *arguments])
        with text.open(encoding="utf-8") as stream, self.patch.context() as patch:
            patch.setattr(sys, "stdin", stream)
            with pytest.raises(SystemExit) as ended:
                cli.main()
        out, err = self.capture.readouterr()
        return Done(int(ended.value.code or 0), out, err)

    def play(self, *lines: dict[str, Any], options: tuple[str, ...] = (), columns: int = 160) -> Done:
        """Play a script of these lines."""
        script = self.folder / "script.jsonl"
        script.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return self("--script", script.name, *options, columns=columns)
