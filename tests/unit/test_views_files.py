"""Reports in files and notebooks: the same numbers as the view, escaped, within the size limit, without requests."""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import ragstone
from ragstone.errors import ConfigurationError
from ragstone.experiments import Experiment, TimeRange, build_report
from ragstone.judges import JudgeIdentity
from ragstone.metrics import resolve_metrics
from ragstone.schema import Captured, NotApplicable, Passage, Sample, Score, Trace, Usage
from ragstone.store import Completion, PlannedMetric, SqliteStore
from ragstone.views import ReportText, format_interval, format_mean, format_share

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</script><script>alert(1)</script>",
    "javascript:alert(1)",
    "<!--",
    "&lt;b&gt;",
    "``` \n# heading ```` ```",
    "| a | b |\n|---|---|",
    "[x](javascript:alert(1)) **b** <details>",
    "\x00\x1b[31m\ud800\u202e",
]


def experiment(n: int = 40, *, text: str = "A sentence about ferries. ", hostile: bool = False) -> Experiment:
    """An experiment of which a quarter of the answers is wrong."""
    samples, outcomes = [], []
    for k in range(n):
        bad = HOSTILE[k % len(HOSTILE)] if hostile else ""
        sample = Sample(
            id=f"s{k}{bad}".encode(errors="replace").decode(),
            query=f"Question {k}? {bad}",
            contexts=tuple(
                Passage(text=f"{text}{k}.{p} {bad}", id=f"p{p}{bad}", relevance=float(k % 2)) for p in range(3)
            ),
            response=f"It is so. It costs {k} crowns. {bad}",
            reference=(f"It costs {k + 1} crowns. {bad}",),
            metadata={f"key{bad}": bad or "value"},
        )
        samples.append(sample)
        claims = [
            {"claim": "It is so.", "supported": True},
            {"claim": f"It costs {k} crowns.", "supported": bool(k % 3)},
        ]
        judged = 0.1 if k % 4 == 0 else 0.9
        for metric, value, details in (
            ("ccrs.ac", judged, {"em": 0.0, "judge": judged}),
            ("ragas.faithfulness", 1.0 if k % 3 else 0.5, {"claims": claims}),
        ):
            outcomes.append(
                Score(
                    sample_id=sample.id,
                    metric=metric,
                    metric_version="1",
                    value=value,
                    method="exact",
                    details=details,
                    explanation=bad or None,
                    judge=f"judge {HOSTILE[0]}" if hostile else "judge",
                    judge_hash="h",
                )
            )
    return Experiment(
        samples=tuple(samples),
        outcomes=tuple(outcomes),
        cards=tuple(metric.card for metric in resolve_metrics(["ccrs.ac", "ragas.faithfulness"])),
        judge=JudgeIdentity(name="judge", hash="h"),
        usage=Usage(),
        wall_s=1.0,
    )


class Page(HTMLParser):
    """Collects elements, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.raw: dict[str, str] = {}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = f"{tag}#{dict(attrs).get('id') or ''}"

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open.startswith(("script", "style")):
            self.raw[self._open] = self.raw.get(self._open, "") + data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    @property
    def data(self) -> dict[str, Any]:
        packed = self.raw["script#data"]
        unpacked: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
        return unpacked


def page_of(result: Experiment, path: Path, **options: Any) -> Page:
    """Write the page and read it back."""
    result.report(path / "r.html", **options)
    return Page((path / "r.html").read_text(encoding="utf-8"))


def test_all_renderers_show_the_same_numbers(tmp_path: Path) -> None:
    """Means, intervals, shares and statements of the view are in the page, the summary, the terminal and the notebook."""
    result = experiment()
    view = build_report(result)
    result.report(tmp_path / "r.md")
    page = page_of(result, tmp_path)
    markdown = (tmp_path / "r.md").read_text(encoding="utf-8").replace("\\", "")
    terminal = " ".join(" ".join(line.plain for line in ReportText(view, width=100).lines()).split())
    notebook = Page(result._repr_html_()).text
    assert view.causes
    for text in (page.text, markdown, terminal, notebook):
        for row in view.metrics:
            assert row.estimate is not None
            assert format_mean(row.estimate) in text
            assert format_interval(row.estimate) in text
        assert view.verdict[0].text.partition(" (")[0] in text
    for text in (page.text, markdown, terminal):
        for cause in view.causes:
            assert cause.title in text
            assert cause.share is None or format_share(cause.share) in text
    for answer in view.worst:
        assert answer.id in page.text
        assert answer.id in terminal


def test_the_table_of_the_page_has_every_question(tmp_path: Path) -> None:
    """With cause, rating and the score of each metric, and the texts of each answer."""
    result = experiment()
    view, data = build_report(result), page_of(result, tmp_path).data
    assert len(result.samples) == len(data["questions"]) == len(data["answers"])
    scores = {(o.sample_id, o.metric): o.value for o in result.outcomes if isinstance(o, Score)}
    assert ["ccrs.ac", "ragas.faithfulness"] == data["metrics"]
    for id_, query, cause, rating, values, labels, low in data["questions"]:
        assert [n for n, value in enumerate(values) if value < 0.5] == low
        assert [] == labels
        assert query.startswith("Question")
        assert values == [scores[id_, metric] for metric in data["metrics"]]
        assert rating == pytest.approx(sum(values) / 2)
        assert (cause in data["wrong"]) == (scores[id_, "ccrs.ac"] < 0.5)
    assert {row.cause for row in view.causes if row.is_wrong} == set(data["wrong"])
    answers = {id_: answer for id_, answer, _ in data["answers"]}
    texts = [text for _, _, added in data["answers"] for text in added]
    assert len(set(texts)) == len(texts)
    query, why, kind, response, claims, reference, listed, passages, metadata = answers["s0"]
    assert ("Question 0? ", "why", [], ["It costs 1 crowns. "]) == (query, kind, claims, reference)
    assert [["It is so. ", False], ["It costs 0 crowns. ", True]] == response
    assert ["A sentence about ferries. 0.0 "] == [texts[passages[0][2]]]
    assert (why, [["key", "value"]]) == ("None of the 3 passages is relevant. The answer has another source.", metadata)
    assert ["Answer correctness", "0.10"] == listed[0][:2]


def test_a_long_passage_is_folded_and_complete(tmp_path: Path) -> None:
    """Its start is visible without opening it. A short one is not folded."""
    long, short = "A sentence about ferries. " * 30, "A sentence about ferries. " * 20
    result = experiment(n=6, text=long)
    result.report(tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    n_shown = len(build_report(result).worst)
    assert 3 * n_shown == html.count("<details>")
    folded = re.search(
        r'<details><summary><span class="text">(.*?)…</span>.*?</summary><span class="text">(.*?)</span>', html
    )
    assert folded is not None
    assert folded[2].startswith(folded[1])
    assert (True, True) == (250 < len(folded[1]) <= 300, len(folded[2]) > len(long))
    experiment(n=6, text=short).report(tmp_path / "r.html")
    assert "<details>" not in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_the_size_limit_cuts_between_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data end with the last group of answers that fits, packed or unpacked, and each passage of a shown answer is there."""
    result = experiment(n=100)
    full = page_of(result, tmp_path)
    n_all, limit = len(full.data["answers"]), (tmp_path / "r.html").stat().st_size - len(full.raw["script#data"]) // 3
    result.report(tmp_path / "small.html", max_mb=limit / 1e6)
    assert (tmp_path / "small.html").stat().st_size <= limit
    small = Page((tmp_path / "small.html").read_text(encoding="utf-8")).data
    assert 0 < len(small["answers"]) < n_all == 100
    monkeypatch.setattr("ragstone.views._html._MAX_UNPACKED", 40_000)
    unpacked = page_of(result, tmp_path).data
    assert 0 < len(unpacked["answers"]) < n_all
    assert len(json.dumps(unpacked, separators=(",", ":"))) <= 40_000
    for data in (small, unpacked):
        texts = [text for _, _, added in data["answers"] for text in added]
        numbers = [passage[2] for _, answer, _ in data["answers"] for passage in answer[7]]
        assert set(numbers) == set(range(len(texts)))


def test_the_policy_of_the_page_allows_its_own_style_and_script_only(tmp_path: Path) -> None:
    """Hashes match, and no attribute contains code, a style or an address."""
    page = page_of(experiment(hostile=True), tmp_path)
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    for kind, text in (("style-src", page.raw["style#"]), ("script-src", page.raw["script#"])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    for tag, attributes in page.tags:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form")
        assert [] == [name for name in attributes if name == "style" or name.startswith("on")]
        assert all((value or "").startswith("#") for name, value in attributes.items() if name in ("href", "src"))
    assert 2 == sum(tag == "script" for tag, _ in page.tags)


def test_hostile_texts_are_text(tmp_path: Path) -> None:
    """They are on the page as they are, and do not make elements."""
    hostile, harmless = (page_of(experiment(hostile=flag), tmp_path) for flag in (True, False))
    for text in HOSTILE[:5]:
        assert text in hostile.text or text in json.dumps(hostile.data, ensure_ascii=False).replace('\\"', '"')
    assert {tag for tag, _ in harmless.tags} == {tag for tag, _ in hostile.tags}


def test_hostile_texts_do_not_leave_the_code_block_of_a_summary(tmp_path: Path) -> None:
    """Outside of code, every character with a meaning in Markdown or HTML is escaped."""
    experiment(hostile=True).report(tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    outside, fence = [], None
    for line in text.splitlines():
        if fence is None and (start := re.match(r"(`{3,})text$", line)):
            fence = start[1]
        elif fence is not None and line == fence:
            fence = None
        elif fence is None:
            outside.append(re.sub(r"(`+) ?.*? ?\1", "", line))
    assert fence is None
    plain = "\n".join(outside)
    assert [] == [
        tag
        for tag in re.findall(r"<[^>]*>", plain)
        if tag not in ("<details>", "<summary>", "</summary>", "</details>")
    ]
    assert not re.search(r"(?<!\\)\]\(", plain)
    assert len(text.splitlines()) <= 60


@pytest.mark.parametrize("max_mb", [0.2, 0.5, 1.5])
def test_the_size_limit_holds(tmp_path: Path, max_mb: float) -> None:
    """Answers that do not fit are listed without their texts, and the page says how many are whole."""
    import random

    words = [f"{random.Random(k).getrandbits(40):x}" for k in range(4000)]
    result = experiment(600, text=" ".join(words[:60]))
    for n, sample in enumerate(result.samples):
        rng = random.Random(n)
        passages = tuple(
            p.model_copy(update={"text": " ".join(rng.choices(words, k=80))}) for p in sample.contexts or ()
        )
        object.__setattr__(sample, "contexts", passages)
    page = page_of(result, tmp_path, max_mb=max_mb)
    size = (tmp_path / "r.html").stat().st_size
    assert size <= max_mb * 1_000_000
    whole = len(page.data["answers"])
    assert f"Full text of {whole:,} of 600 answers." in page.text
    assert len(page.data["questions"]) == 600
    assert (whole == 600) == (max_mb == 1.5)


def test_a_page_without_texts(tmp_path: Path) -> None:
    """Only ids, scores and causes."""
    page = page_of(experiment(), tmp_path, texts=False)
    text = page.text + json.dumps(page.data)
    assert "ferries" not in text
    assert "Question 1" not in text
    assert "crowns" not in text
    assert "s1" in text
    assert "no texts of questions" in text


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("report.pdf", {}, "must end in .html or .htm or .md, got"),
        ("absent/report.html", {}, "cannot write .*existing directory"),
        ("report.html", {"max_mb": 0.0}, "max_mb must be above 0"),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, options: dict[str, Any], message: str) -> None:
    """Value, rule and way out, and nothing is written."""
    with pytest.raises(ConfigurationError, match=message):
        experiment(3).report(tmp_path / name, **options)
    assert [] == list(tmp_path.iterdir())


def test_a_small_result_is_shown_well(tmp_path: Path) -> None:
    """Three samples: no causes, no histogram, the answers themselves."""
    page = page_of(experiment(3), tmp_path)
    assert "Where it fails" not in page.text
    assert "Only 3 samples" in page.text
    assert all(f"s{k}" in page.text for k in range(3))


def test_a_chart_has_its_data() -> None:
    """For any plot library, and as SVG."""
    result = experiment()
    chart = result.plot("ccrs.ac")
    row = build_report(result).metrics[0]
    assert row.estimate is not None
    assert (row.estimate.value, row.n_scored, row.histogram) == tuple(chart.data[k] for k in ("mean", "n", "histogram"))
    assert chart.to_svg().startswith("<svg")
    assert 'xmlns="http://www.w3.org/2000/svg"' in chart.to_svg()
    assert "<svg" in chart._repr_html_()
    assert [] == chart.data["trend"]
    with pytest.raises(ConfigurationError, match="'udcg' was not scored"):
        result.plot("udcg")


def test_a_comparison_has_charts() -> None:
    """Each system, and each difference with its interval."""
    first, second = experiment(), experiment()
    comparison = ragstone.compare({"a": first, "b": second})
    chart = comparison.plot("ccrs.ac")
    (row,) = comparison.view(questions=False).differences[:1]
    means = {system: numbers["mean"] for system, numbers in chart.data["systems"].items()}
    truth = first.plot("ccrs.ac").data["mean"]
    assert ({"a": truth, "b": truth}, ["b"]) == (means, [row["system"] for row in chart.data["differences"]])
    assert row.difference == chart.data["differences"][0]["difference"]
    drawing = ET.fromstring(chart.to_svg())  # noqa: S314  our own
    assert 3 == len(drawing.findall("{http://www.w3.org/2000/svg}svg"))
    assert row.size in chart._repr_html_()
    with pytest.raises(ConfigurationError, match="'udcg' was not compared"):
        comparison.plot("udcg")


def test_the_requests_of_a_store_report_themselves(tmp_path: Path) -> None:
    """From Python, as an experiment does: the page, the worst answers, a gate, and charts with the means over time."""
    store = tmp_path / "a.db"
    with SqliteStore.open(store, mode="own") as owned:
        owned.plan.set([PlannedMetric(name="rouge_l", version="1", judge_hash="")], [])
        traces = [Trace(trace_id=f"t{k}", started_at=1e9 + 3600 * k, query="Q?", response="a") for k in range(80)]
        owned.traces.ingest("test", 0, [Captured(trace=trace) for trace in traces])
        scores = [
            Score(sample_id=f"t{k}", metric="rouge_l", metric_version="1", value=k / 79, method="x") for k in range(80)
        ]
        owned.outcomes.complete_many([Completion(trace_id=score.sample_id, outcomes=[score]) for score in scores])
    whole, late = TimeRange(store), TimeRange(store, since=1e9 + 3600 * 40)
    view = whole.report(tmp_path / "r.html")
    assert (80, True) == (view.n_samples, (tmp_path / "r.html").exists())
    assert build_report(store) == whole.report()
    chart = whole.plot("rouge_l")
    points = chart.data["trend"]
    assert (0.5, 80) == (pytest.approx(chart.data["mean"]), chart.data["n"])
    assert len(points) > 1
    assert all(a["until"] < b["since"] and a["mean"] < b["mean"] for a, b in itertools.pairwise(points))
    drawing = ET.fromstring(chart.to_svg())  # noqa: S314  our own
    assert 3 == len(drawing.findall("{http://www.w3.org/2000/svg}svg"))
    assert "t0" == whole.worst(1)[0].id
    assert "t40" == late.worst(1)[0].id
    assert (False, True) == (whole.check({"rouge_l": 0.6}).ok, late.check({"rouge_l": 0.6}).ok)
    changes = late.report(baseline=TimeRange(store, until=1e9 + 3600 * 40)).changes
    assert changes is not None
    assert "better" == changes.differences[0].finding
    assert "<table" in whole._repr_html_()


def test_answers_in_a_notebook() -> None:
    """With marked claims and without scripts, whatever the texts contain."""
    html = experiment(hostile=True).worst(3)._repr_html_()
    page = Page(html)
    assert not any(tag == "script" for tag, _ in page.tags)
    assert any(tag == "mark" for tag, _ in page.tags)
    assert [] == [name for _, attributes in page.tags for name in attributes if name.startswith("on")]


def test_labels_of_questions_are_those_of_the_slices(tmp_path: Path) -> None:
    """The table filters by each value of a slice; equal texts of different labels are one filter."""
    made = experiment()
    samples = tuple(
        sample.model_copy(update={"metadata": {"topic": f"t{k % 2}", "b": f"x={k % 2}", "b=x": f"{k % 2}"}})
        for k, sample in enumerate(made.samples)
    )
    result = replace(made, samples=samples)
    page = page_of(result, tmp_path, by=["topic", "b", "b=x"])
    assert {"topic=t0", "topic=t1", "b=x=0", "b=x=1"} == set(page.data["labels"])
    for k, (*_, labels, _low) in enumerate(page.data["questions"]):
        assert {f"topic=t{k % 2}", f"b=x={k % 2}"} == {page.data["labels"][n] for n in labels}
    options = {attributes.get("value") for tag, attributes in page.tags if tag == "option"}
    assert set(page.data["labels"]) <= options


def test_the_line_of_all_answers_is_in_each_slice_also_with_a_baseline(tmp_path: Path) -> None:
    """The first statement is then about the change, and its numbers are not the share of wrong answers."""
    made = experiment()
    samples = tuple(
        sample.model_copy(update={"metadata": {"topic": f"t{k % 2}"}}) for k, sample in enumerate(made.samples)
    )
    result = replace(made, samples=samples)
    result.report(tmp_path / "changes.html", baseline=made)
    result.report(tmp_path / "r.html")
    for name in ("r.html", "changes.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        slices = text[text.index('class="slices"') :].partition("</table>")[0]
        assert 2 == slices.count('class="neutral"')
        assert "all 25 %" in slices


def test_scores_without_a_reason_are_on_one_line(tmp_path: Path) -> None:
    """Low and missing ones, and those with a reason, have a row."""
    made = experiment()
    outcomes = tuple(
        outcome.model_copy(update={"value": 0.9, "details": {}}) if outcome.metric == "ragas.faithfulness" else outcome
        for outcome in made.outcomes
    )
    page = page_of(replace(made, outcomes=outcomes), tmp_path)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    first = text[text.index("<article") :].partition("</article>")[0]
    table = first[first.index('class="scores"') :].partition("</table>")[0]
    assert "Answer correctness" in table
    assert "Claim faithfulness" not in table
    assert "Other scores: Claim faithfulness (all passages) 0.90</p>" in first
    listed = {id_: answer[6] for id_, answer, _ in page.data["answers"]}["s0"]
    assert [("Answer correctness", True), ("Claim faithfulness (all passages)", False)] == [
        (s[0], s[4]) for s in listed
    ]


@pytest.mark.parametrize(("n", "first"), [(4, "worst"), (5, "scores")])
def test_few_answers_come_before_their_means(tmp_path: Path, n: int, first: str) -> None:
    """A typical first replay has three requests."""
    experiment(n).report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert first == min(("worst", "scores"), key=lambda name: text.index(f'<section id="{name}"'))
    assert 1 == text.count('<section id="worst"')


def test_metrics_without_any_outcome_but_not_applicable_are_one_line(tmp_path: Path) -> None:
    """A first replay has no references, and empty rows would come before those with scores."""
    made = experiment()
    outcomes = tuple(
        NotApplicable(sample_id=o.sample_id, metric=o.metric, metric_version="1", reason="no reference")
        if o.metric == "ccrs.ac"
        else o
        for o in made.outcomes
    )
    result = replace(made, outcomes=outcomes)
    terminal = " ".join(" ".join(line.plain for line in ReportText(build_report(result), width=100).lines()).split())
    result.report(tmp_path / "r.md")
    summary = (tmp_path / "r.md").read_text(encoding="utf-8")
    for text in (page_of(result, tmp_path).text, terminal, Page(result._repr_html_()).text, summary):
        assert "no score" not in text
        assert re.search("applicable to any sample: (Answer correctness|`ccrs.ac`)", text)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    questions = page[page.index('id="all"') :]
    assert 'title="Answer correctness"' not in questions
    assert ">lowest Answer correctness<" not in questions
    only = replace(made, outcomes=tuple(outcome for outcome in outcomes if outcome.metric == "ccrs.ac"))
    assert "no score" in page_of(only, tmp_path).text


@pytest.mark.parametrize(("n", "first"), [(4, "Worst answer"), (5, "mean [CI]")])
def test_few_answers_come_first_in_a_terminal_too(n: int, first: str) -> None:
    """As on the page."""
    text = "\n".join(line.plain for line in ReportText(build_report(experiment(n))).lines())
    assert first == min(("Worst answer", "mean [CI]"), key=text.index)
    assert 1 == text.count("Worst answer")


def test_bars_and_outlines_have_one_scale(tmp_path: Path) -> None:
    """The longest of both fills the chart, also if it is an outline, and the heading names the baseline."""
    made = experiment()
    before = replace(made, outcomes=tuple(outcome for outcome in made.outcomes if outcome.metric == "ccrs.ac"))
    after = tuple(
        outcome.model_copy(update={"value": 0.9, "details": {"em": 0.0, "judge": 0.9}})
        if int(outcome.sample_id[1:]) % 8
        else outcome
        for outcome in before.outcomes
    )
    replace(before, outcomes=after).report(tmp_path / "r.html", baseline=before)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    causes = text[text.index('<section id="causes"') :].partition("</section>")[0]
    widths = {
        kind: [float(width) for width in re.findall(rf'width="([0-9.]+)"[^>]*class="{kind}"', causes)]
        for kind in ("wrong", "before")
    }
    assert 278 == max(widths["before"]) > max(widths["wrong"]) > 0
    assert "The outline is baseline." in causes


def test_scores_that_do_not_apply_are_counted_in_the_table(tmp_path: Path) -> None:
    """Next to the number of scores."""
    made = experiment()
    outcomes = tuple(
        NotApplicable(sample_id=o.sample_id, metric=o.metric, metric_version="1", reason="no reference")
        if o.metric == "ccrs.ac" and int(o.sample_id[1:]) % 4 == 1
        else o
        for o in made.outcomes
    )
    assert "30 scored, 10 n.a." in page_of(replace(made, outcomes=outcomes), tmp_path).text
