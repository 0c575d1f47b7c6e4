"""A real browser: Debian's Chromium, driven by Playwright, without a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from hostile_texts import NOTE_HITS


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, or a skip without one."""
    path = os.environ.get("RAGSTONE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("needs Chromium (apt-get install chromium), or its path in RAGSTONE_CHROMIUM")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


class Opened:
    """A page, with everything that it asked for and complained about."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.address = path.as_uri()
        self.messages: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("dialog", lambda dialog: (self.messages.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))
        page.add_init_script(NOTE_HITS)
        page.goto(self.address)

    def ready(self) -> Opened:
        """Wait until the table of questions is there."""
        self.page.wait_for_selector("#all:not([hidden])", timeout=60_000)
        return self


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """A function that opens a file in a new window without a network."""
    contexts = []

    def open_(path: Path, *, width: int = 1280, **options: Any) -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)
        contexts.append(context)
        return Opened(context.new_page(), path)

    yield open_
    for context in contexts:
        context.close()
