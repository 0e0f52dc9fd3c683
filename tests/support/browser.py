"""A Chromium without a window, driven over its DevTools protocol: no framework, one websocket."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from needs import need

_PATIENCE = 30.0
_T = TypeVar("_T")
_KEYS = {
    "Enter": ("\r", 13),
    "Escape": ("", 27),
    "Tab": ("", 9),
    "ArrowDown": ("", 40),
    "ArrowUp": ("", 38),
    "End": ("", 35),
}
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio")  # fmt: skip


class Browser:
    """One page of a browser. `troubles` has what its console warned of, errors and exceptions, since the last `open`.

    Attributes:
        asked: addresses the page wanted something from since the last `open`, beside its own.
    """

    def __init__(self, folder: Path) -> None:
        binary = shutil.which("chromium")
        need(binary, "chromium (`scripts/chromium-up` installs it)")
        self.troubles: list[str] = []
        self.asked: list[str] = []
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        # A group of its own: the browser has children.
        words = [str(binary), *_OPTIONS, f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank"]
        self._process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            self._run(self._connect(self._address()))
        except BaseException:
            self.close()
            raise

    def _address(self) -> str:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            text = line.decode(errors="replace")
            if "DevTools listening on" in text:
                threading.Thread(target=self._process.stderr.read, daemon=True).start()
                return text.rpartition(" ")[2].strip()
        raise AssertionError("chromium ended before it listened")

    async def _connect(self, address: str) -> None:
        self._http = aiohttp.ClientSession()
        self._socket = await self._http.ws_connect(address, max_msg_size=0)
        self._session: str | None = None
        self._reader = asyncio.create_task(self._read())
        targets = await self._send("Target.getTargets")
        page = next(one["targetId"] for one in targets["targetInfos"] if one["type"] == "page")
        self._session = (await self._send("Target.attachToTarget", targetId=page, flatten=True))["sessionId"]
        for name in ("Page", "Runtime", "Log", "Network"):
            await self._send(f"{name}.enable")

    async def _read(self) -> None:
        async for message in self._socket:
            event = json.loads(message.data)
            if "id" in event:
                answered = self._answers.pop(event["id"])
                if not answered.done():  # nobody waits any longer for an answer that was late
                    answered.set_result(event)
                continue
            self._note(event["method"], event["params"])
            waiting = self._waiting.pop(event["method"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(event["params"])

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.troubles.append(json.dumps(params["exceptionDetails"])[:2000])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.troubles.append(json.dumps(params["args"])[:2000])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.troubles.append(params["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.troubles.append(f"a dialog: {params['message']}")
            asyncio.create_task(self._send("Page.handleJavaScriptDialog", accept=False))  # noqa: RUF006
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])

    async def _send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        answered = self._answers[number] = self._loop.create_future()
        message = {"id": number, "method": method, "params": params}
        await self._socket.send_json(message | ({"sessionId": self._session} if self._session else {}))
        answer = await asyncio.wait_for(answered, _PATIENCE)
        assert "error" not in answer, f"{method}: {answer.get('error')}"
        found: dict[str, Any] = answer["result"]
        return found

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of the protocol."""
        return self._run(self._send(method, **params))

    def open(self, address: str) -> None:
        """Go to an address, and wait until the page says that it is ready (`data-ready` on the root)."""
        self.troubles.clear()
        self.asked.clear()
        self._run(self._open(address))
        self.until("document.documentElement.dataset.ready !== undefined")
        self.asked = [one for one in self.asked if one != address]

    async def _open(self, address: str) -> None:
        # From a blank page: another fragment of the same page would not load it again.
        for where in ("about:blank", address):
            loaded = self._waiting["Page.loadEventFired"] = self._loop.create_future()
            await self._send("Page.navigate", url=where)
            await asyncio.wait_for(loaded, _PATIENCE)

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives, as JSON; promises are waited for."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait in the page until an expression of JavaScript holds."""
        self.value(f"""new Promise((done) => {{
            const look = () => (({condition}) ? done(true) : requestAnimationFrame(look)); look(); }})""")

    def click(self, selector: str, containing: str = "") -> None:
        """Click the first element that fits, with a mouse, where it is."""
        # Scrolling draws a list anew, a frame later: what was found is looked for again.
        place = self.value(f"""(async () => {{
            const find = () => [...document.querySelectorAll({json.dumps(selector)})]
                .find((each) => each.textContent.includes({json.dumps(containing)}));
            find().scrollIntoView({{block: "center"}});
            for (const _ of [1, 2]) await new Promise((done) => requestAnimationFrame(done));
            const box = find().getBoundingClientRect();
            return [box.x + Math.min(box.width / 2, 40), box.y + box.height / 2]; }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def key(self, name: str) -> None:
        """Press a key: a character, or one by its name."""
        text, code = _KEYS.get(name, (name, ord(name[0].upper())))
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=name, text=text, windowsVirtualKeyCode=code)

    def write(self, text: str) -> None:
        """Type a text where the focus is."""
        self.send("Input.insertText", text=text)

    def screen(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the window and the colours the user likes."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """Write what is on the screen as a PNG."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        """End the browser and its children."""
        with suppress(Exception):
            self._run(self._disconnect())
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_PATIENCE)
        if self._process.stderr is not None:
            self._process.stderr.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()

    async def _disconnect(self) -> None:
        self._reader.cancel()
        await self._http.close()


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser for a `with` block, with a profile of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(Path(folder))
        try:
            yield browser
        finally:
            browser.close()
