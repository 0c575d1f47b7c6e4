"""The live page in a real browser: two tabs, a worker that writes, a server that ends, hostile texts, a keyboard and axe."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, expect

from command_line import MAIN
from hostile_texts import HOSTILE, NOTE_HITS
from live_store import add_request, add_requests, make_store, make_trace
from ragstone.store import DrawnRequest, SqliteStore

WAIT_MS = 60_000


class Served:
    """A `ragstone view` process."""

    def __init__(self, path: Path, port: int = 0, *, changes: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", changes + MAIN, "view", str(path), "--listen", f"127.0.0.1:{port}"],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert self.process.stdout is not None
        found = re.search(r"http://[^:]+:(\d+)/", self.process.stdout.readline())
        assert found
        self.address, self.port = found[0], int(found[1])

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """A function that serves a store."""
    running: list[Served] = []

    def start(path: Path, port: int = 0, *, changes: str = "") -> Served:
        running.append(Served(path, port, changes=changes))
        return running[-1]

    yield start
    for each in running:
        each.stop()


class Tab:
    """A page, with everything that it asked for and complained about."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.messages: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("dialog", lambda dialog: (self.messages.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("requestfailed", self._note_failure)
        page.add_init_script(NOTE_HITS)
        page.goto(address, wait_until="commit")

    def _note_failure(self, request: Request) -> None:
        if request.failure == "csp":  # not sent
            self.requests.remove(request.url)

    def live(self) -> Tab:
        """Wait until it is connected and the table is there."""
        self.page.wait_for_selector("#state.live", timeout=WAIT_MS)
        self.page.wait_for_selector("#all:not([hidden])", timeout=WAIT_MS)
        return self


@pytest.fixture
def tab(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """A function that opens an address in a new window."""
    contexts = []

    def open_(address: str, *, width: int = 1280, **options: Any) -> Tab:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        return Tab(context.new_page(), address)

    yield open_
    for context in contexts:
        context.close()


def test_two_tabs_follow_a_worker(serve: Any, tab: Any, tmp_path: Path) -> None:
    """Both show new scores without being loaded again, and say nothing in the console."""
    path = make_store(tmp_path / "s.db", 60)
    served = serve(path)
    tabs = [tab(served.address).live() for _ in range(2)]
    with SqliteStore.open(path, mode="own") as store:
        add_requests(store, 60, 40)
        for each in tabs:
            expect(each.page.locator("h1")).to_contain_text("25 of 100", timeout=WAIT_MS)
            expect(each.page.locator("#found")).to_have_text("100 of 100 questions", timeout=WAIT_MS)
    for each in tabs:
        assert [] == each.messages
        assert all(request.startswith(served.address) for request in each.requests)
        assert 1 == each.requests.count(served.address)


def test_an_open_answer_and_a_search_survive_an_update(serve: Any, tab: Any, tmp_path: Path) -> None:
    """What somebody reads or types is not replaced under their hands; it follows afterwards."""
    path = make_store(tmp_path / "s.db", 60)
    page = tab(serve(path).address).live().page
    page.keyboard.press("/")
    page.keyboard.type("ferry 17")
    expect(page.locator("#found")).to_have_text("1 of 60 questions", timeout=WAIT_MS)
    page.locator("#rows a").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] h3")
    assert page.url.endswith("#q=t17")
    with SqliteStore.open(path, mode="own") as store:
        add_requests(store, 60, 40)
    expect(page.locator("h1")).to_contain_text("25 of 100", timeout=WAIT_MS)
    assert "It costs 17 crowns." in page.locator("dialog").inner_text()
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    assert page.url.endswith("#all")
    assert "ferry 17" == page.locator("#search").input_value()
    page.locator("#search").fill("")
    expect(page.locator("#found")).to_have_text("100 of 100 questions", timeout=WAIT_MS)
    page.locator("#cause").select_option("wrong")
    expect(page.locator("#found")).to_have_text("25 of 100 questions", timeout=WAIT_MS)
    page.locator("#rows td.value").first.click()
    page.wait_for_selector("dialog[open] h3")


def test_a_link_shares_filters_order_and_page(serve: Any, tab: Any, tmp_path: Path) -> None:
    """Labels, conditions and times select, headings sort by keyboard, and the address of all that opens the same view."""
    served = serve(make_store(tmp_path / "s.db", 240))
    opened = tab(served.address).live()
    page, found = opened.page, opened.page.locator("#found")
    page.locator("#add").select_option(label="times")
    expect(found).to_have_text("120 of 240 questions", timeout=WAIT_MS)
    expect(page.locator("#selection")).to_contain_text("Wrong answers")
    page.locator("#add").select_option(label="name contains ...")
    assert page.evaluate("document.activeElement.id") == "where"
    page.keyboard.type("ask and ccrs.qr>0")
    page.keyboard.press("Enter")
    expect(found).to_have_text("103 of 240 questions", timeout=WAIT_MS)
    page.locator("#since").fill("2023-11-15")
    expect(found).to_have_text("58 of 240 questions", timeout=WAIT_MS)
    heading = page.locator("th", has_text="Question · time")
    heading.locator("button").focus()
    for sort in ("descending", "ascending"):
        page.keyboard.press("Enter")
        expect(heading).to_have_attribute("aria-sort", sort, timeout=WAIT_MS)
    assert 1 == page.locator("th[aria-sort]").count()
    expect(page.locator("#previous")).to_be_disabled()
    page.locator("#next").click()
    expect(page.locator("#page")).to_have_text("Page 2 of 2", timeout=WAIT_MS)
    expect(page.locator("#next")).to_be_disabled()
    other = tab(page.url).live().page
    expect(other.locator("#found")).to_have_text("58 of 240 questions", timeout=WAIT_MS)
    expect(other.locator("#page")).to_have_text("Page 2 of 2")
    for name in ("where", "since"):
        assert page.locator(f"#{name}").input_value() == other.locator(f"#{name}").input_value()
    rows = "rows => rows.map((row) => row.textContent)"
    assert page.locator("#rows tr").evaluate_all(rows) == other.locator("#rows tr").evaluate_all(rows)
    with other.expect_download() as download:
        other.locator("#csv").click()
    assert 59 == len(download.value.path().read_text().splitlines())
    assert [] == opened.messages
    page.locator("#where").fill("<img src=x onerror=alert(1)>=1")
    page.keyboard.press("Enter")
    expect(found).to_contain_text("must be KEY OPERATOR VALUE", timeout=WAIT_MS)
    assert "ran" not in opened.messages


def test_answers_follow_each_other_over_pages_and_their_links_are_copied(serve: Any, tab: Any, tmp_path: Path) -> None:
    """With keys and buttons, in the order of the table; the link of an answer has the filters."""
    served = serve(make_store(tmp_path / "s.db", 120))
    page = tab(f"{served.address}?sort=time", permissions=["clipboard-read", "clipboard-write"]).live().page
    content = page.locator("#content")
    page.locator("#rows a").nth(48).click()
    expect(content).to_contain_text("ferry 48 leave?", timeout=WAIT_MS)
    expect(content).to_contain_text("Whole request")
    page.keyboard.press("j")
    expect(content).to_contain_text("ferry 49 leave?", timeout=WAIT_MS)
    page.locator("#next-answer").click()
    expect(content).to_contain_text("ferry 50 leave?", timeout=WAIT_MS)
    expect(page.locator("#page")).to_have_text("Page 2 of 3")
    page.keyboard.press("k")
    expect(content).to_contain_text("ferry 49 leave?", timeout=WAIT_MS)
    for name, text in (("Copy id", "t49"), ("Copy link", f"{served.address}?sort=time#q=t49")):
        button = content.get_by_role("button", name=name)
        button.click()
        expect(content.get_by_role("button", name="Copied")).to_have_count(1, timeout=WAIT_MS)
        assert text == page.evaluate("navigator.clipboard.readText()")
        expect(button).to_have_count(1, timeout=WAIT_MS)


def test_it_connects_again_to_a_new_server(serve: Any, tab: Any, tmp_path: Path) -> None:
    """The page says that the connection is lost, and shows what happened in between afterwards."""
    path = make_store(tmp_path / "s.db", 20)
    first = serve(path)
    page = tab(first.address).live().page
    first.stop()
    page.wait_for_selector("#state.lost", timeout=WAIT_MS)
    with SqliteStore.open(path, mode="own") as store:
        add_requests(store, 20, 20)
    serve(path, first.port)
    page.wait_for_selector("#state.live", timeout=WAIT_MS)
    expect(page.locator("h1")).to_contain_text("10 of 40", timeout=WAIT_MS)


def test_a_damaged_store_is_named_above_the_last_numbers(serve: Any, tab: Any, tmp_path: Path) -> None:
    """The page stays, with the reason."""
    path = make_store(tmp_path / "s.db", 20)
    page = tab(serve(path).address).live().page
    path.unlink()
    expect(page.locator("#part-problem")).to_contain_text("not found", timeout=WAIT_MS)
    assert "5 of 20" in page.locator("h1").inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_accessible_and_not_wider_than_the_window(
    serve: Any, tab: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    """No violation of WCAG according to axe, with and without an open answer."""
    opened = tab(serve(make_store(tmp_path / "s.db", 60)).address, width=width, color_scheme=scheme).live()
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [] == [v["id"] for v in Axe().run(page).response["violations"]]
    page.locator("#rows a").first.click()
    page.wait_for_selector("dialog[open] h3")
    assert [] == [v["id"] for v in Axe().run(page).response["violations"]]
    assert [] == opened.messages
    folder = Path(__file__).parents[2] / ".nox" / "reports"
    if folder.is_dir():
        page.keyboard.press("Escape")
        page.screenshot(path=folder / f"live-{width}-{scheme}.png", full_page=True)


def test_hostile_texts_do_not_run(serve: Any, tab: Any, tmp_path: Path) -> None:
    """In every field, in the first page and in parts, rows and answers that are fetched later."""
    path = make_store(tmp_path / "s.db", 40, bad=HOSTILE)
    served = serve(path)
    opened = tab(served.address).live()
    page = opened.page
    for link in page.locator("#rows a").all()[:20]:
        page.goto(f"{served.address}{link.get_attribute('href')}")
        page.wait_for_selector("dialog[open] h3")
        page.keyboard.press("Escape")
    with SqliteStore.open(path, mode="own") as store:
        add_requests(store, 40, 20, bad=HOSTILE)
    expect(page.locator("h1")).to_contain_text("15 of 60", timeout=WAIT_MS)
    assert [] == opened.messages
    assert all(request.startswith(served.address) for request in opened.requests)


NO_ESCAPING = "import ragstone.views._markup as markup; markup.escape = lambda text: text; "
NO_POLICY = "import ragstone.views._live as live; live.content_policy = lambda *_, **__: ''; "
LAYERS = pytest.mark.parametrize(
    ("changes", "is_blocked", "runs"),
    [
        pytest.param(NO_POLICY, False, False, id="escaping alone"),
        pytest.param(NO_ESCAPING, True, False, id="policy alone"),
        pytest.param(NO_ESCAPING + NO_POLICY, False, True, id="neither"),
    ],
)
"""Each of both layers without the other. Without both, scripts run: the texts can show what a layer stops."""


def has_run(opened: Tab) -> bool:
    """Whether a hostile text ran. It may have broken the page."""
    return "ran" in opened.messages


def check_layer(opened: Tab, *, is_blocked: bool, runs: bool) -> None:
    """Assert whether a script ran, and whether the policy stopped something."""
    assert runs == has_run(opened), opened.messages
    assert is_blocked == any("Content Security Policy" in message for message in opened.messages)
    if not runs:
        assert not any(url.startswith("http://127.0.0.1:9/") for url in opened.requests)


@LAYERS
def test_each_layer_alone_stops_texts_of_the_first_page(
    serve: Any, tab: Any, tmp_path: Path, changes: str, is_blocked: bool, runs: bool
) -> None:
    """The worst and latest answers, the judge, and labels."""
    served = serve(make_store(tmp_path / "s.db", 60, bad=HOSTILE), changes=changes)
    opened = tab(served.address)
    opened.page.wait_for_timeout(1500)
    check_layer(opened, is_blocked=is_blocked, runs=runs)


@LAYERS
def test_each_layer_alone_stops_texts_that_are_fetched(
    serve: Any, tab: Any, tmp_path: Path, changes: str, is_blocked: bool, runs: bool
) -> None:
    """Rows of the table, and each answer in the dialog, of a page that does not contain them at first."""
    # No policy can forbid to leave a page.
    texts = [text for text in HOSTILE if "http-equiv=refresh" not in text]
    path = make_store(tmp_path / "s.db", 60)
    with SqliteStore.open(path, mode="own") as store:
        for k, text in enumerate(texts):
            add_request(store, 101 + 12 * k, bad=text, judge="judge")  # correct and supported
    served = serve(path, changes=changes)
    opened = tab(served.address).live()
    with opened.page.expect_response(re.compile(r"/questions\?.*offset=50")):
        opened.page.locator("#next").click()
    for k, text in enumerate(texts):
        if has_run(opened):
            break
        id_ = make_trace(101 + 12 * k, bad=text).trace_id
        opened.page.evaluate("id => { location.hash = '#q=' + encodeURIComponent(id); }", id_)
        expect(opened.page.locator("#content")).to_contain_text(
            f"When does ferry {101 + 12 * k} leave?", timeout=WAIT_MS
        )
    opened.page.wait_for_timeout(300)
    check_layer(opened, is_blocked=is_blocked, runs=runs)


@LAYERS
def test_each_layer_alone_stops_texts_of_the_label_page(
    serve: Any, tab: Any, tmp_path: Path, changes: str, is_blocked: bool, runs: bool
) -> None:
    """Before and after a label."""
    served = serve(drawn_store(tmp_path / "s.db", bad=HOSTILE), changes=changes)
    opened = tab(f"{served.address}label")
    for k in range(10):
        if has_run(opened):
            break
        expect(opened.page.locator("#item")).to_contain_text(f"When does ferry {k} leave?", timeout=WAIT_MS)
        opened.page.keyboard.press("1")
        expect(opened.page.locator("#saved")).to_have_count(1, timeout=WAIT_MS)
        opened.page.keyboard.press("j")
    opened.page.wait_for_timeout(300)
    check_layer(opened, is_blocked=is_blocked, runs=runs)


def test_without_javascript(serve: Any, tab: Any, tmp_path: Path) -> None:
    """The numbers are there, and the page says that it does not update itself."""
    page = tab(serve(make_store(tmp_path / "s.db", 20)).address, java_script_enabled=False).page
    assert "5 of 20" in page.locator("h1").inner_text()
    assert "needs JavaScript" in page.locator("#state").inner_text()


def drawn_store(path: Path, *, bad: list[str] | None = None) -> Path:
    """A store of which the first ten requests are drawn, in order."""
    make_store(path, 20, bad=bad)
    with SqliteStore.open(path, mode="own") as store:
        ids = [trace.trace_id for trace in store.traces.read()]
        store.labels.save([DrawnRequest(id_, 0.5, k if k < 10 else None) for k, id_ in enumerate(ids)])
    return path


def test_labels_with_the_keyboard(serve: Any, tab: Any, tmp_path: Path) -> None:
    """While a worker owns the store: 1 to 3 label, J and K go on, U takes back, and the report then has a statement."""
    path = drawn_store(tmp_path / "s.db")
    served = serve(path)
    opened = tab(f"{served.address}label")
    page = opened.page
    with SqliteStore.open(path, mode="own") as owner:
        expect(page.locator("#question")).to_have_text("When does ferry 0 leave?", timeout=WAIT_MS)
        assert page.evaluate("document.activeElement.id") == "question"
        for k in range(10):
            expect(page.locator("#question")).to_have_text(f"When does ferry {k} leave?", timeout=WAIT_MS)
            expect(page.locator("#item")).not_to_contain_text("Answer correctness")
            page.keyboard.press("3" if k % 4 == 0 else "1")
            expect(page.locator("#saved b")).to_have_text("Wrong" if k % 4 == 0 else "Correct", timeout=WAIT_MS)
            expect(page.locator("#item")).to_contain_text("Answer correctness")
            if k < 9:
                page.keyboard.press("j")
        page.keyboard.press("k")
        expect(page.locator("#progress")).to_contain_text("Answer 9 of 10, 10 labeled by you", timeout=WAIT_MS)
        page.keyboard.press("u")
        expect(page.locator("#progress")).to_contain_text("Answer 10 of 10, 9 labeled by you", timeout=WAIT_MS)
        expect(page.locator("#item")).not_to_contain_text("Answer correctness")
        page.locator("#author").fill("zoe 123")
        page.keyboard.press("Tab")
        expect(page.locator("#progress")).to_contain_text("Answer 1 of 10, 0 labeled by you", timeout=WAIT_MS)
        assert 9 == len(owner.labels.read())
        owner.leases.claim("w", 1, lease_s=1)
        assert 9 == len(owner.labels.read())
    assert [] == opened.messages
    report = tab(served.address).live().page
    expect(report.locator(".verdict")).to_contain_text("agree on 9 of 9 labeled answers", timeout=WAIT_MS)
    expect(report.locator("#labels")).to_contain_text("What people say")


def test_a_correct_answer_is_typed_and_saved_with_the_label(serve: Any, tab: Any, tmp_path: Path) -> None:
    """Digits in the text are not labels, and a passage is marked."""
    path = drawn_store(tmp_path / "s.db")
    page = tab(f"{serve(path).address}label").page
    page.wait_for_selector("#correction", timeout=WAIT_MS)
    page.locator("#correction").press_sequentially("Pier 123, juk.")
    page.locator("summary").click()
    page.locator(".mark").nth(1).check()
    expect(page.locator("#saved")).to_have_count(0)
    page.locator(".choice").nth(2).click()
    expect(page.locator("#saved b")).to_have_text("Wrong", timeout=WAIT_MS)
    expect(page.locator("#correction")).to_have_value("Pier 123, juk.")
    with SqliteStore.open(path, mode="read") as store:
        assert [(0.0, "Pier 123, juk.", "[2]")] == [
            (label.value, label.correction, label.relevant) for label in store.labels.read()
        ]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_label_page_is_accessible(serve: Any, tab: Any, tmp_path: Path, width: int, scheme: str) -> None:
    """Before and after a label, with hostile texts, which do not run."""
    path = drawn_store(tmp_path / "s.db", bad=HOSTILE)
    opened = tab(f"{serve(path).address}label", width=width, color_scheme=scheme)
    page = opened.page
    for key in ("1", "2"):
        page.wait_for_selector("#question", timeout=WAIT_MS)
        page.locator("summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert [] == [v["id"] for v in Axe().run(page).response["violations"]]
        page.keyboard.press(key)
        page.wait_for_selector("#saved", timeout=WAIT_MS)
        assert [] == [v["id"] for v in Axe().run(page).response["violations"]]
        page.keyboard.press("j")
        expect(page.locator("#saved")).to_have_count(0, timeout=WAIT_MS)
    assert [] == opened.messages


def test_requests_are_drawn_on_the_page(serve: Any, tab: Any, tmp_path: Path) -> None:
    """Until then, the buttons of labels are hidden."""
    opened = tab(f"{serve(make_store(tmp_path / 's.db', 20)).address}label")
    page = opened.page
    expect(page.locator("#none")).to_be_visible(timeout=WAIT_MS)
    expect(page.locator("#choices")).to_be_hidden()
    page.locator("#n").fill("20")
    page.locator("#draw").click()
    expect(page.locator("#progress")).to_have_text(
        "20 of 20 scored requests drawn, 20 in all draws. Answer 1 of 20, 0 labeled by you.", timeout=WAIT_MS
    )
    expect(page.locator("#question")).to_contain_text("When does ferry")
    page.keyboard.press("1")
    expect(page.locator("#saved b")).to_have_text("Correct", timeout=WAIT_MS)
    assert [] == opened.messages


def test_links_lead_to_sections_that_are_there(serve: Any, tab: Any, tmp_path: Path) -> None:
    """An empty store has none, and they appear with the first scores."""
    path = make_store(tmp_path / "s.db", 0)
    page = tab(serve(path).address).page
    page.wait_for_selector("#state.live", timeout=WAIT_MS)
    links = page.locator("nav a:visible")
    assert ["Label answers"] == links.all_inner_texts()
    with SqliteStore.open(path, mode="own") as store:
        add_requests(store, 0, 20)
        expect(links).to_have_count(5, timeout=WAIT_MS)
    for link in links.all()[:-1]:
        assert page.locator((link.get_attribute("href") or "") + ":visible").count() == 1


def test_the_passages_of_an_answer_to_label_can_be_seen_to_open(serve: Any, tab: Any, tmp_path: Path) -> None:
    """Their heading has the mark of something that opens, and is not a line of the reference."""
    page = tab(f"{serve(drawn_store(tmp_path / 's.db')).address}label").page
    page.wait_for_selector("#question", timeout=WAIT_MS)
    summary = page.locator("#item summary")
    style = "element => [getComputedStyle(element).display, getComputedStyle(element).listStyleType]"
    assert ["list-item", "disclosure-closed"] == summary.evaluate(style)
    color = "element => getComputedStyle(element).color"
    assert summary.evaluate(color) != page.locator("#item .text").first.evaluate(color)
