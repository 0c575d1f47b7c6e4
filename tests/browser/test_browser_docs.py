"""The built documentation in a real browser: accessible in light and dark, on a desk and on a phone, with links that lead somewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))
ADDRESSES = ["404.html", *("" if page.stem == "index" else f"{page.with_suffix('').as_posix()}/" for page in PAGES)]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, as `nox -s docs` builds them."""
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return directory


class Silent(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """The address of the pages on the loopback interface."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(site)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_page_is_opened(site: Path) -> None:
    """The addresses of the tests below are those of all pages that are built."""
    built = {path.relative_to(site).as_posix().removesuffix("index.html") for path in site.rglob("*.html")}
    assert built == set(ADDRESSES)


@pytest.mark.parametrize("page", ADDRESSES, ids=lambda page: page or "index")
def test_accessible_and_not_wider_than_the_window(browser: Any, address: str, page: str) -> None:
    """No violation of WCAG according to axe, no horizontal scrolling, no message, and no request to another server."""
    for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")):
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
        try:
            check(context.new_page(), address, page, width)
        except AssertionError as error:
            error.add_note(f"{width} pixels, {scheme}")
            raise
        finally:
            context.close()


def check(window: Any, address: str, page: str, width: int) -> None:
    """Open a page in a window."""
    messages: list[str] = []
    requests: list[str] = []
    window.on("console", lambda message: messages.append(message.text))
    window.on("pageerror", lambda error: messages.append(str(error)))
    window.on("request", lambda request: requests.append(request.url))
    window.goto(address + page)
    # The page's own script makes frames of wide tables focusable in the next frame.
    window.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert [] == messages
    assert [] == [url for url in requests if not url.startswith((address, "data:", "blob:"))]
    assert window.evaluate("document.documentElement.scrollWidth") <= width
    # The details of what is right would be megabytes on a page of the API reference.
    violations = Axe().run(window, options={"resultTypes": ["violations"]}).response["violations"]
    assert [] == [(each["id"], node["target"], node["failureSummary"]) for each in violations for node in each["nodes"]]


@pytest.mark.parametrize(
    ("words", "page"),
    [("--judge-model", "reference/cli/"), ("retention", "how-to/retention/")],
)
def test_search(browser: Any, address: str, words: str, page: str) -> None:
    """The search finds options with their dashes, and pages for users before decisions."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    try:
        window = context.new_page()
        window.goto(address)
        window.locator("[data-md-component=search-query]").fill(words)
        window.locator(f".md-search-result a[href*='{page}']").first.wait_for(state="attached", timeout=60_000)
        found = window.locator(".md-search-result a.md-search-result__link").evaluate_all(
            "all => all.map(one => one.pathname)"
        )
        decisions = [place for place, path in enumerate(found) if path.startswith("/decisions/")]
        assert found.index(f"/{page}") < min(decisions, default=len(found))
    finally:
        context.close()


class Links(HTMLParser):
    """The anchors of a page, and what its links and pictures name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"id", "name"} and value:
                self.anchors.add(value)
            elif name in {"href", "src"} and value:
                self.targets.append(value)


def test_links_lead_to_pages_and_anchors(site: Path) -> None:
    """Every link and picture of a built page, those of the generated reference too, names a file and an anchor that exist."""
    start = "http://docs/"
    pages = {
        start + path.relative_to(site).as_posix().removesuffix("index.html"): Links(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
    }
    broken = []
    for url, page in pages.items():
        for target in page.targets:
            found, anchor = urldefrag(urljoin(url, target))
            if not found.startswith(start) or url.endswith("/404.html"):
                continue
            path = unquote(urlsplit(found).path).lstrip("/")
            if found in pages:
                if anchor and unquote(anchor) not in pages[found].anchors:
                    broken.append((url, target))
            elif not (site / path).is_file():
                broken.append((url, target))
    assert [] == broken
