"""How large a report is, how long it takes to make, and how soon a browser has its list.

Makes the page of the example conversations and of the recordings beside the repository, opens it in a fresh Chromium
without a window, and clicks its way to the refused cancellation. Needs `chromium` on PATH (`scripts/chromium-up`).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data" / "conversations"
RUNS = 5

sys.path.insert(0, str(ROOT / "tests"))

from support.browser import Browser, browsing  # noqa: E402 - it lives with the tests


def main() -> None:
    """Print the figures of docs/report.md."""
    files = [*sorted((ROOT / "examples" / "conversations").glob("*.jsonl")), *sorted(SHARED.glob("*.gz"))]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = [sys.executable, "-m", "ledgeragent", "report", "--engine", "embedded", "--workers", "2"]
        subprocess.run([*command, *map(str, files), "-o", str(page)], check=True)
        # A browser each time: nothing is warm but the disk.
        times = sorted(_opened(page) for _ in range(RUNS))
        print("navigation to usable list, in ms, of", RUNS, "fresh browsers:", ", ".join(f"{one:.0f}" for one in times))
        with browsing() as browser:
            _clicked(browser, page)


def _opened(page: Path) -> float:
    with browsing() as browser:
        browser.screen(1440, 900)
        browser.open(page.as_uri())
        assert (browser.troubles, browser.asked) == ([], [])
        return float(browser.value("document.documentElement.dataset.ready"))


def _clicked(browser: Browser, page: Path) -> None:
    browser.screen(1440, 900)
    browser.open(page.as_uri())
    started = time.perf_counter()
    for selector, containing in (
        (".bar-row", "airline.cancel_requires_basis"),
        ("#verdicts button", "block"),
        (".row", ""),
    ):
        browser.click(selector, containing)
    browser.until("document.querySelector('.step.selected .finding') !== null")
    took = 1000 * (time.perf_counter() - started)
    print(browser.value("document.querySelector('#count').innerText"))
    print(
        f"after three clicks, in {took:.0f} ms:",
        browser.value("document.querySelector('.step.selected .call').innerText"),
    )
    print("heap:", f"{browser.value('performance.memory.usedJSHeapSize') / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
