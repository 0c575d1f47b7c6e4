"""The report in a real browser: silent, accessible, safe, usable with the keyboard, on a phone, on paper and without JavaScript."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from hostile_texts import HOSTILE
from ragstone.experiments import Experiment
from ragstone.judges import JudgeIdentity
from ragstone.metrics import resolve_metrics
from ragstone.schema import Failure, Passage, Sample, Score, Usage


def experiment(n: int, *, hostile: bool = False, text: str = "The ferry leaves at nine. ") -> Experiment:
    """An experiment of which a quarter of the answers is wrong."""
    samples, outcomes = [], []
    for k in range(n):
        bad = HOSTILE[k % len(HOSTILE)] if hostile else ""
        judged = 0.1 if k % 4 == 0 else 0.9
        sample = Sample(
            id=f"s{k}{bad}",
            query=f"When does ferry {k} leave? {bad}",
            contexts=tuple(
                Passage(text=f"{text}{k} {p} {bad}", id=f"p{bad}", relevance=float(k % 2)) for p in range(5)
            ),
            response=f"It leaves at nine. It costs {k} crowns. {bad}",
            reference=(f"At ten. {bad}",),
            metadata={f"key{bad}": bad or "value"},
        )
        samples.append(sample)
        claims = [{"claim": f"It costs {k} crowns.", "supported": bool(k % 3)}]
        for metric, value, details in (
            ("ccrs.ac", judged, {"em": 0.0, "judge": judged}),
            ("ragas.faithfulness", float(bool(k % 3)), {"claims": claims}),
        ):
            score = Score(
                sample_id=sample.id,
                metric=metric,
                metric_version="1",
                value=value,
                method="exact",
                details=details,
                explanation=bad or "a reason",
                judge=f"judge{bad}",
                judge_hash="h",
            )
            outcomes.append(score)
    return Experiment(
        samples=tuple(samples),
        outcomes=tuple(outcomes),
        cards=tuple(metric.card for metric in resolve_metrics(["ccrs.ac", "ragas.faithfulness"])),
        judge=JudgeIdentity(name="judge", hash="h"),
        usage=Usage(),
        wall_s=1.0,
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of 120 questions."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    experiment(120).report(path)
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_silent_accessible_and_not_wider_than_the_window(opened: Any, report: Path, width: int, scheme: str) -> None:
    """No message, no request but the file, no violation of WCAG according to axe, no horizontal scrolling."""
    window = opened(report, width=width, color_scheme=scheme).ready()
    page = window.page
    assert [] == window.messages
    assert [window.address] == window.requests
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # axe puts a script on the page, which the policy of the page forbids, so it runs in a world of its own.
    assert [] == [v["id"] for v in Axe().run(page).response["violations"]]
    page.locator("#rows a").first.click()
    page.wait_for_selector("dialog[open]")
    assert [] == [v["id"] for v in Axe().run(page).response["violations"]]


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of 60 questions against a baseline of which a quarter is wrong."""
    before = experiment(60)
    after = tuple(
        outcome.model_copy(update={"value": 0.9, "details": {"em": 0.0, "judge": 0.9 if n % 14 else 0.1}})
        if outcome.metric == "ccrs.ac"
        else outcome
        for n, outcome in enumerate(before.outcomes)
    )
    path = tmp_path_factory.mktemp("changes") / "report.html"
    replace(before, outcomes=after).report(path, baseline=before)
    return path


OUTSIDE = """() => {
  const style = getComputedStyle(document.body);
  const right = document.body.getBoundingClientRect().right - parseFloat(style.paddingRight);
  return [...document.querySelectorAll("main *")].filter(each => each.getBoundingClientRect().right > right + 1)
    .map(each => each.outerHTML.slice(0, 80));
}"""
"""Returns the elements that extend beyond the margin of the page."""


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_changes_are_accessible_and_lead_to_answers(opened: Any, changed: Path, width: int, scheme: str) -> None:
    """No violation, no horizontal scrolling; a lost question opens its answer, and the table lists all of them."""
    window = opened(changed, width=width, color_scheme=scheme).ready()
    page = window.page
    assert [] == window.messages
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [] == page.evaluate(OUTSIDE)
    assert [] == [v["id"] for v in Axe().run(page).response["violations"]]
    lost = page.locator("table.changed").first.locator("tbody a")
    question = lost.first.inner_text()
    lost.first.click()
    page.wait_for_selector("dialog[open]")
    assert question in page.locator("dialog").inner_text()
    page.keyboard.press("Escape")
    page.locator("#cause").select_option(label="lost against baseline")
    n_lost = int(page.locator("#found").inner_text().split(" of ")[0])
    assert n_lost >= lost.count() > 0
    assert f"{n_lost} are wrong now" in page.locator("#changes").inner_text()


def test_search_filter_and_dialog_with_the_keyboard(opened: Any, report: Path) -> None:
    """`/` goes to the search, Enter opens an answer, Escape closes it, and the address names it."""
    page = opened(report).ready().page
    assert "120 of 120 questions" == page.locator("#found").inner_text()
    assert page.locator("#rows tr").count() == 50
    page.keyboard.press("/")
    page.keyboard.type("ferry 118")
    assert "1 of 120 questions" == page.locator("#found").inner_text()
    page.locator("#rows a").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert "When does ferry 118 leave?" in page.locator("dialog").inner_text()
    assert "The ferry leaves at nine. 118 0" in page.locator("dialog").inner_text()
    assert page.url.endswith("#q=s118")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    assert page.url.endswith("#all")
    page.locator("#search").fill("")
    page.locator("#cause").select_option("wrong")
    assert "30 of 120 questions" == page.locator("#found").inner_text()


def test_headings_sort_the_table_of_a_file(opened: Any, tmp_path: Path) -> None:
    """By keyboard, the worst first and then reversed, as the list of orders does."""
    experiment(60).report(tmp_path / "r.html")
    page = opened(tmp_path / "r.html").ready().page
    heading = page.locator("#all th").nth(2)
    values = "cells => cells.map((cell) => Number(cell.textContent))"
    heading.locator("button").focus()
    for is_reversed, sort in ((False, "ascending"), (True, "descending")):
        page.keyboard.press("Enter")
        assert sort == heading.get_attribute("aria-sort")
        shown = page.locator("#rows td.value:nth-child(3)").evaluate_all(values)
        assert sorted(shown, reverse=is_reversed) == shown
        assert len(set(shown)) > 1
        assert 1 == page.locator("#all th[aria-sort]").count()
    assert "-ccrs.ac" == page.locator("#sort").input_value()
    page.locator("#sort").select_option("score")
    assert "ascending" == page.locator("#all th").first.get_attribute("aria-sort")


def test_a_label_filters_and_a_row_opens_its_answer(opened: Any, tmp_path: Path) -> None:
    """Low scores of all metrics are marked in the table, and every place in a row leads to the answer."""
    made = experiment(60)
    samples = tuple(
        sample.model_copy(update={"metadata": {"topic": ("fares", "times")[k % 2]}})
        for k, sample in enumerate(made.samples)
    )
    replace(made, samples=samples).report(tmp_path / "r.html")
    page = opened(tmp_path / "r.html").ready().page
    assert ["Score", "Question", "ccrs.ac", "ragas.faithfulness"] == page.locator("#all th").all_inner_texts()
    page.locator("#label").select_option(label="times")
    assert "30 of 60 questions" == page.locator("#found").inner_text()
    page.locator("#cause").select_option("wrong")  # every fourth question, none of which is about times
    assert "0 of 60 questions" == page.locator("#found").inner_text()
    page.locator("#label").select_option("")
    assert "15 of 60 questions" == page.locator("#found").inner_text()
    values = page.locator("#rows tr", has_text="ferry 4 leave").locator("td.value")
    assert ["0.10", "1.00"] == values.all_inner_texts()
    assert ["value number bad", "value number"] == [each.get_attribute("class") for each in values.all()]
    values.first.click()
    page.wait_for_selector("dialog[open]")
    assert "When does ferry 4 leave?" in page.locator("dialog").inner_text()


@pytest.mark.parametrize("width", [390, 1280])
def test_texts_without_spaces_do_not_widen_the_page(opened: Any, tmp_path: Path, width: int) -> None:
    """Questions, answers, passages, ids, reasons, labels and the judge."""
    made = experiment(40)
    long = "x" * 400
    samples = tuple(
        sample.model_copy(
            update={
                "id": f"{sample.id}{long}", "query": long, "response": long, "reference": (long,),
                "contexts": (Passage(text=long, id=long),), "metadata": {"topic": f"{k % 2}{long}"},
            }
        )
        for k, sample in enumerate(made.samples)
    )  # fmt: skip
    outcomes = tuple(
        outcome.model_copy(
            update={"sample_id": f"{outcome.sample_id}{long}", "explanation": long, "judge": f"judge{long}"}
        )
        for outcome in made.outcomes
    )
    replace(made, samples=samples, outcomes=outcomes).report(tmp_path / "r.html")
    page = opened(tmp_path / "r.html", width=width).ready().page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#rows a").first.click()
    page.wait_for_selector("dialog[open]")
    assert page.evaluate("document.querySelector('dialog').scrollWidth") <= width


BROKEN = """selector => [...document.querySelectorAll(selector)].filter(element => {
  const range = document.createRange();
  range.selectNodeContents(element);
  return new Set([...range.getClientRects()].map(each => Math.round(each.bottom))).size > 1;
}).map(element => element.innerText)"""
"""Returns the texts of the elements whose text has more than one line."""


@pytest.mark.parametrize("width", [1280, 390])
def test_numbers_stay_on_one_line(opened: Any, tmp_path: Path, width: int) -> None:
    """Large counts, failed scores and the columns of a baseline."""
    before = experiment(500)
    outcomes = list(before.outcomes)
    about = {"metric": "ragas.faithfulness", "metric_version": "1", "judge_hash": "h", "kind": "unparseable"}
    reason = "the reply is not a number: 'I cannot rate this, because the passages contradict each other.'"
    for n in range(1, len(outcomes), 8):
        outcomes[n] = Failure(sample_id=outcomes[n].sample_id, reason=reason, **about)
    replace(before, outcomes=tuple(outcomes)).report(tmp_path / "r.html", baseline=before)
    page = opened(tmp_path / "r.html", width=width).ready().page
    assert "failed" in page.locator(".scores .number").all_inner_texts()
    assert "125" in page.locator(".causes td:first-child").all_inner_texts()
    assert [] == page.evaluate(BROKEN, ".scores .number, .causes td:first-child, .changed .number, .metrics strong")


def test_columns_of_changed_answers_have_their_headings_above_them(opened: Any, changed: Path) -> None:
    """Also on a phone, where each row is a grid."""
    page = opened(changed, width=390).ready().page
    table = page.locator("table.changed").first
    for column in (1, 2):
        heading, value = (
            table.locator(f"{cell}").nth(column).bounding_box() for cell in ("th", "tbody tr:first-child td")
        )
        assert abs(heading["x"] + heading["width"] - value["x"] - value["width"]) < 1


def test_the_color_of_a_score_fits_its_number(opened: Any, tmp_path: Path) -> None:
    """0.499 is written as "0.50", the middle of the range, and 0.494 as "0.49", which is low."""
    made = experiment(8)
    values = {"s1": 0.499, "s2": 0.494}
    outcomes = tuple(
        outcome.model_copy(update={"value": values.get(outcome.sample_id, 0.9)}) for outcome in made.outcomes
    )
    replace(made, outcomes=outcomes).report(tmp_path / "r.html")
    page = opened(tmp_path / "r.html").ready().page
    cells = [
        (cell.inner_text(), "bad" in cell.get_attribute("class").split())
        for cell in page.locator("#rows td.value").all()
    ]
    assert {("0.50", False), ("0.49", True), ("0.90", False)} == set(cells)


def test_answers_without_a_cause_have_none_in_the_table(opened: Any, tmp_path: Path) -> None:
    """Below five answers, causes are not counted, and do not have a title."""
    experiment(3).report(tmp_path / "r.html")
    page = opened(tmp_path / "r.html").ready().page
    assert ["s0", "s1", "s2"] == sorted(page.locator("#rows small").all_inner_texts())


def test_an_address_of_one_answer(opened: Any, report: Path) -> None:
    """A link to an answer opens it."""
    window = opened(report).ready()
    window.page.goto(f"{window.address}#q=s7")
    window.page.reload()
    window.page.wait_for_selector("dialog[open]")
    assert "When does ferry 7 leave?" in window.page.locator("dialog").inner_text()


def test_hostile_texts_do_not_run(opened: Any, tmp_path: Path) -> None:
    """In every field, on the page and in the dialog."""
    experiment(60, hostile=True).report(tmp_path / "r.html")
    window = opened(tmp_path / "r.html").ready()
    page = window.page
    for link in page.locator("#rows a").all()[:20]:
        page.goto(f"{window.address}{link.get_attribute('href')}")
        page.wait_for_selector("dialog[open]")
        page.keyboard.press("Escape")
    assert [] == window.messages
    assert all(request.startswith(window.address) for request in window.requests)


@pytest.mark.parametrize(
    ("is_escaped", "has_policy"),
    [
        pytest.param(True, False, id="escaping alone"),
        pytest.param(False, True, id="policy alone"),
        pytest.param(False, False, id="neither"),
    ],
)
def test_each_layer_alone_stops_hostile_texts(
    opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_escaped: bool, has_policy: bool
) -> None:
    """Without both layers scripts run: the texts can show what a layer stops."""
    if not is_escaped:
        monkeypatch.setattr("ragstone.views._markup.escape", lambda text: text)
    if not has_policy:
        monkeypatch.setattr("ragstone.views._html.content_policy", lambda *_: "")
    experiment(60, hostile=True).report(tmp_path / "r.html")
    window = opened(tmp_path / "r.html")
    window.page.wait_for_timeout(1000)
    assert (is_escaped or has_policy) != ("ran" in window.messages)
    assert (has_policy and not is_escaped) == any("Content Security Policy" in text for text in window.messages)
    if is_escaped or has_policy:
        assert all(request.startswith("file:") for request in window.requests)


def test_without_javascript_and_on_paper(opened: Any, report: Path) -> None:
    """Verdict, scores, causes, worst answers and provenance are there; the table of all questions is not."""
    page = opened(report, java_script_enabled=False).page
    headings = [heading.inner_text() for heading in page.locator("h2").all() if heading.is_visible()]
    assert ["The scores", "Where it fails", "The worst answers", "How these numbers were made"] == headings
    assert 5 == page.locator("article.answer").count()
    assert len(page.pdf()) > 20_000


def test_a_folded_passage_opens_with_the_keyboard_and_on_paper(opened: Any, tmp_path: Path) -> None:
    """Five answers fit on few screens, and nothing is missing on paper."""
    experiment(20, text="The ferry leaves at nine. " * 60).report(tmp_path / "r.html")
    page = opened(tmp_path / "r.html").ready().page
    first = page.locator("article.answer details").first
    whole = first.locator("> .text")
    assert not whole.is_visible()
    first.locator("summary").focus()
    page.keyboard.press("Enter")
    assert whole.is_visible()
    assert not first.locator("summary .text").is_visible()
    page.emulate_media(media="print")
    assert page.locator("article.answer details").nth(1).locator("> .text").bounding_box()["height"] > 50


@pytest.mark.parametrize(("n", "limit_mb"), [(300, 1.5), (2000, 1.5), (20_000, 1.5)])
def test_sizes(opened: Any, tmp_path: Path, n: int, limit_mb: float) -> None:
    """The page keeps its limit, and its table has every question."""
    words = "the quick ferry crosses a cold sound between two small islands every hour of the day "
    experiment(n, text=words * 8).report(tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size <= limit_mb * 1e6
    page = opened(tmp_path / "r.html").ready().page
    assert f"{n:,} of {n:,} questions" == page.locator("#found").inner_text()


def test_pictures(opened: Any, report: Path) -> None:
    """Screenshots to look at, in .nox/reports if nox runs this."""
    folder = Path(__file__).parents[2] / ".nox" / "reports"
    if not folder.is_dir():
        pytest.skip("written by `nox -s browser`")
    for name, width, scheme in (("light", 1280, "light"), ("dark", 1280, "dark"), ("phone", 390, "light")):
        window = opened(report, width=width, color_scheme=scheme).ready()
        window.page.screenshot(path=folder / f"report-{name}.png", full_page=True)
        assert (folder / f"report-{name}.png").stat().st_size > 20_000
