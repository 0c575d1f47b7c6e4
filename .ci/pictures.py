"""Take the pictures of the documentation: run the demo, open its report and its live page in Chromium, keep what they show.

`nox -s pictures` runs this after a change of the page. The pictures are part of the repository.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
RAGSTONE = str(Path(sys.executable).with_name("ragstone"))
SCHEMES = ("light", "dark")


@contextmanager
def open_page(browser: Browser, url: str, scheme: str, *, width: int = 1280, height: int = 900) -> Iterator[Page]:
    """Open a page in a window of its own, and wait for its table."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("#all:not([hidden])", timeout=60_000)
    yield page
    context.close()


@contextmanager
def serve_live_page(directory: Path) -> Iterator[str]:
    """Run `ragstone view` of the demo's store on a free port of the loopback interface."""
    command = [RAGSTONE, "view", "ragstone-demo/demo.db", "--port", "0"]
    server = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        lines = iter(server.stdout.readline, "")  # type: ignore[union-attr]
        yield next(found[0] for line in lines if (found := re.search(r"http://\S+", line)))
    finally:
        server.terminate()
        server.wait()


def take_pictures(browser: Browser, directory: Path) -> None:
    """Write every picture in light and dark."""
    report = (directory / "ragstone-demo" / "report.html").as_uri()
    for scheme in SCHEMES:
        with open_page(browser, report, scheme) as page:
            page.screenshot(path=PICTURES / f"report-{scheme}.png")
        with open_page(browser, report, scheme, width=390, height=760) as page:
            page.screenshot(path=PICTURES / f"phone-{scheme}.png")
    with serve_live_page(directory) as url:
        for scheme in SCHEMES:
            with open_page(browser, url, scheme) as page:
                page.wait_for_selector("#state.live", timeout=60_000)
                page.screenshot(path=PICTURES / f"live-{scheme}.png")


def main() -> None:
    """Take all pictures."""
    chromium = os.environ.get("RAGSTONE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("needs Chromium (apt-get install chromium), or its path in RAGSTONE_CHROMIUM")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        subprocess.run([RAGSTONE, "demo"], cwd=directory, check=True, capture_output=True)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        take_pictures(browser, Path(directory))
        browser.close()
    for path in sorted(PICTURES.glob("*.png")):
        print(f"{path.stat().st_size // 1000:5d} kB  {path.name}")


if __name__ == "__main__":
    main()
