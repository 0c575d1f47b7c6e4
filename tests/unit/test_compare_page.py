"""The page, the summary and the tables of a comparison of systems."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import ragstone
from command_line import run_command
from ragstone.errors import ConfigurationError
from ragstone.schema import Failure, Sample
from ragstone.views._comparison_files import COMPARISON_WRITERS
from ragstone.views._words import letter

HOSTILE = "<script>alert(1)</script> $x_1$ \\input{/etc/passwd} | ``` &amp; [a](javascript:b) \x1b[31m \u202e=1+1"


def system(quality: float, *, n=24, names=("ccrs.ac", "token_f1"), texts=None, failed=0, first=0):
    """A system that answers a share of the questions, the easy ones first. The first answers fail to be scored."""
    rows = [
        {
            "id": f"q{k}",
            "query": (texts or "Where is {}?").format(k) if texts is None else f"{k} {texts}",
            "contexts": [f"Stone {k} is here."],
            "response": (f"In place {k}." if k % 10 < 10 * quality else "I don't know.") + (texts or ""),
            "reference": f"In place {k}." + (texts or ""),
        }
        for k in range(first, first + n)
    ]
    made = ragstone.evaluate(rows, list(names), judge="lexical")
    lost = {f"q{k}" for k in range(first, first + failed)}
    outcomes = tuple(
        Failure(sample_id=o.sample_id, metric=o.metric, metric_version=o.metric_version, judge=o.judge,
                judge_hash=o.judge_hash, kind="timeout", reason="late")
        if o.sample_id in lost
        else o
        for o in made.outcomes
    )  # fmt: skip
    return replace(made, outcomes=outcomes)


class Page(HTMLParser):
    """Tags and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def written(comparison, tmp_path, ending, **options):
    """The text of a file."""
    comparison.write(tmp_path / f"file{ending}", **options)
    return (tmp_path / f"file{ending}").read_text(encoding="utf-8")


@pytest.mark.parametrize("n", [2, 3, 6])
def test_all_files_have_the_numbers_of_the_comparison(n, tmp_path):
    """Of each system, metric and pair."""
    comparison = ragstone.compare({f"system {k}": system(0.3 + 0.6 * k / n) for k in range(n)})
    rows = list(csv.DictReader(io.StringIO(written(comparison, tmp_path, ".csv"))))
    pairs = {(m.metric, p.system, p.other): (m, p) for m in comparison.metrics for p in m.pairs}
    assert n * (n - 1) // 2 * 2 == len(rows) == len(pairs)
    for row in rows:
        metric, pair = pairs[row["metric"], row["system"], row["other"]]
        for name in ("difference", "low", "high", "p_value"):
            value = getattr(pair, name)
            assert value == (pytest.approx(float(row[name])) if row[name] else None), name
        assert (str(pair.n), pair.better or "") == (row["n"], row["better"])
        for side in ("system", "other"):
            (mean,) = [each for each in metric.systems if each.system == row[side]]
            assert mean.estimate.value == pytest.approx(float(row[f"{side}_mean"]))
            assert str(mean.n_scored) == row[f"{side}_n_scored"]
    page, summary, tex = (written(comparison, tmp_path, ending) for ending in (".html", ".md", ".tex"))
    view = comparison.write(tmp_path / "again.md")
    for metric in view.metrics:
        for scores in metric.systems:
            mean = f"{scores.estimate.value:.2f}"
            marks = "".join(map(letter, scores.beats))
            assert f">{mean}" in page
            assert mean in tex
            if marks:
                assert f"<sup>{marks}</sup>" in page
                assert f"{mean} ({marks})" in summary
                assert f"$^{{{marks}}}$" in tex
    for row in view.differences:
        size, _, interval = row.size.partition(" [")
        assert f"{size}</span><small>{f'[{interval}, ' * bool(interval)}{row.finding}" in page
        assert row.p.replace("<", "&lt;") in page
        assert row.size.replace("[", "\\[").replace("]", "\\]") in summary
        assert row.size in tex
    assert comparison.verdict[0].split(":")[0] in Page(page).text


def test_marks_name_the_systems_that_lose(tmp_path):
    """And the loser names the winner. The best of all is bold in LaTeX."""
    comparison = ragstone.compare({"bad": system(0.1, n=60), "good": system(1.0, n=60)}, metrics=["token_f1"])
    (metric,) = comparison.write(tmp_path / "x.html").metrics
    assert [((), (1,)), ((0,), ())] == [(scores.beats, scores.loses) for scores in metric.systems]
    tex = written(comparison, tmp_path, ".tex")
    assert re.search(r"Token F1 & 0\.\d+ & \\textbf\{[\d.]+\}\$\^\{a\}\$ \\\\", tex)


def test_boxes_are_percentiles(tmp_path):
    """Of the scores, and nothing below five."""
    made = system(0.5, n=21, names=("token_f1",))
    outcomes = tuple(o.model_copy(update={"value": (n / 20) ** 2}) for n, o in enumerate(made.outcomes))
    comparison = ragstone.compare({"a": replace(made, outcomes=outcomes), "b": system(0.6, n=21)}, metrics=["token_f1"])
    (metric,) = comparison.write(tmp_path / "x.html").metrics
    assert [(k / 20) ** 2 for k in (1, 5, 10, 15, 19)] == pytest.approx(metric.systems[0].quantiles)
    few = ragstone.compare({"a": system(0.5, n=4), "b": system(0.6, n=4)}, metrics=["token_f1"])
    assert () == few.write(tmp_path / "x.html").metrics[0].systems[0].quantiles


def test_changed_questions_have_both_answers(tmp_path):
    """Side by side, with the reference."""
    comparison = ragstone.compare({"old": system(0.3), "new": system(0.7)})
    view = comparison.write(tmp_path / "x.html")
    (changes,) = view.changes
    assert changes.gained
    page = (tmp_path / "x.html").read_text()
    for row in changes.gained:
        number = int(row.id[1:])
        article = next(part for part in page.split("<article") if f">{row.id}<" in part)
        before, after = article.split("<h4>old</h4>")[1].split("<h4>new</h4>")
        assert "I don&#x27;t know." in before
        assert f"In place {number}." in after
    summary = written(comparison, tmp_path, ".md")
    assert "  old: I don't know." in summary


def test_changes_are_those_against_the_baseline():
    """Also if it is not the first system."""
    view = ragstone.compare({"a": system(0.3), "b": system(0.7), "c": system(0.9)}, baseline="b").view()
    assert [("a", "b"), ("c", "b")] == [(changes.system, changes.baseline) for changes in view.changes]
    assert all(changes.lost_ids for changes in view.changes[:1])


def test_hostile_texts_are_escaped(tmp_path):
    """In questions, answers, references and names of systems, in each kind of file."""
    comparison = ragstone.compare({"=1+1": system(0.3, texts=HOSTILE), HOSTILE: system(0.8, texts=HOSTILE)})
    html = written(comparison, tmp_path, ".html")
    page = Page(html)
    assert {"script", "img", "iframe"}.isdisjoint(tag for tag, _ in page.tags)
    assert [] == [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert all(attributes["href"].startswith("#") for tag, attributes in page.tags if tag == "a")
    assert "default-src &#x27;none&#x27;" in html
    assert "\x1b" not in html
    summary = written(comparison, tmp_path, ".md")
    outside = re.sub(r"(?ms)^(`{3,})text$.*?^\1$", "", summary)
    assert "<script" not in outside.replace("\\<script", "")
    assert "\n| =1+1 " not in summary
    tex = written(comparison, tmp_path, ".tex")
    assert "\\input{" not in "\n".join(line for line in tex.splitlines() if not line.startswith("%"))
    assert all("$x" not in line.replace("\\$x", "") for line in tex.splitlines() if not line.startswith("%"))
    assert "\x1b" not in tex
    cells = [cell for row in csv.reader(io.StringIO(written(comparison, tmp_path, ".csv"))) for cell in row]
    assert "'=1+1" in cells
    assert not any(cell.startswith(("=", "@", "\t")) for cell in cells)


def test_missing_scores_and_metrics_are_said(tmp_path):
    """A metric that one system lacks, failures, and metrics without a score."""
    comparison = ragstone.compare({"a": system(0.5, failed=3), "b": system(0.6, names=("ccrs.ac",))})
    texts = [written(comparison, tmp_path, ending) for ending in COMPARISON_WRITERS]
    page, summary, tex, table = texts
    assert "3 failed" in page
    assert "no score" in page
    assert "3 failed" in summary
    assert "no score" in summary
    assert "& --" in tex
    (absent,) = [row for row in csv.DictReader(io.StringIO(table)) if row["metric"] == "token_f1"]
    assert ("", "", "0") == (absent["difference"], absent["p_value"], absent["system_n_scored"])


def test_systems_with_other_questions(tmp_path):
    """Unpaired runs have means and differences, and no changed questions."""
    for name, one in (("a", system(0.4)), ("b", system(0.9, first=100))):
        one.to_jsonl(tmp_path / f"{name}.jsonl")
    comparison = ragstone.compare([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], paired=False)
    view = comparison.write(tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    assert 0 == view.n_common
    assert "24 samples of a, 24 samples of b" in page
    assert "have different questions, so only means and shares are compared" in page
    assert "<article" not in page


def test_files_without_texts_show_ids_and_say_so(tmp_path):
    """Outcome files do not have texts. With --data they do."""
    for name, one in (("a", system(0.3)), ("b", system(0.8))):
        one.to_jsonl(tmp_path / f"{name}.jsonl")
        (tmp_path / f"{name}-rows.jsonl").write_text("\n".join(map(Sample.model_dump_json, one.samples)))
    files = [str(tmp_path / f"{name}.jsonl") for name in "ab"]
    done = run_command("compare", *files, "-o", tmp_path / "x.html")
    assert (0, "") == (done.returncode, done.stderr)
    page = (tmp_path / "x.html").read_text()
    assert re.search(r"<article[^>]*><h3>q\d+</h3>", page)
    assert "(the answer is not known)" in page
    data = [argument for file in files for argument in ("--data", file.replace(".jsonl", "-rows.jsonl"))]
    run_command("compare", *files, *data, "-o", tmp_path / "x.html", "--margin", "0.1")
    page = (tmp_path / "x.html").read_text()
    assert "Where is " in page
    assert "<b>Gate: </b>" in page


def test_many_systems_and_long_texts_are_bounded(tmp_path):
    """Five systems have changed questions, and texts are cut."""
    systems = {f"s{k}": system(0.2 + 0.1 * k, n=12, texts=" x" * 9000, names=("token_f1",)) for k in range(8)}
    comparison = ragstone.compare(systems, n_permutations=200)
    view = comparison.write(tmp_path / "x.html")
    assert 5 == len(view.changes)
    assert (tmp_path / "x.html").stat().st_size < 1_500_000
    written(comparison, tmp_path, ".md")
    assert (tmp_path / "file.md").stat().st_size < 65_000


@pytest.mark.parametrize("name", ["x.pdf", "absent/x.html", "x"])
def test_invalid_files_are_refused(name, tmp_path):
    """With the rule and the way out."""
    comparison = ragstone.compare({"a": system(0.5, n=4), "b": system(0.6, n=4)})
    with pytest.raises(ConfigurationError, match=r"must end in \.html or \.md or \.tex or \.csv|existing directory"):
        comparison.write(tmp_path / name)


def test_letters_of_many_systems():
    """After z comes aa."""
    assert ["a", "z", "aa", "az", "ba"] == [letter(number) for number in (0, 25, 26, 51, 52)]


@pytest.mark.parametrize(("n", "n_quantiles"), [(4, 0), (5, 5)])
def test_five_scores_have_percentiles(n, n_quantiles):
    """Fewer are too few for a box."""
    view = ragstone.compare({"a": system(0.5, n=n), "b": system(0.6, n=n)}).view()
    assert {n_quantiles} == {len(one.quantiles) for metric in view.metrics for one in metric.systems}
