"""`evaluate`: files in, one outcome a sample and metric out, and a table without a bare mean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import ragstone
from memory_sink import MemorySink
from ragstone.errors import (
    ConfigurationError,
    DataError,
    SinkDeniedError,
    SinkError,
    SinkNoTargetError,
    SinkRejectedError,
    SinkUnavailableError,
)
from ragstone.experiments import format_table
from ragstone.judges import JudgeIdentity
from ragstone.metrics import resolve_metrics
from ragstone.reading import read_samples
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.sinks import Delivery
from ragstone.testing import FakeJudge
from summaries import summarize

ROWS = [
    {"question": "Where is the stone?", "contexts": ["The stone is at the river."], "answer": "At the river.",
     "ground_truth": "At the river."},
    {"question": "Who found it?", "contexts": ["Anna found the stone."], "answer": "Anna.", "ground_truth": None},
    {"question": "Why?", "contexts": [], "answer": "", "ground_truth": "Nobody knows."},
]  # fmt: skip


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    """Write rows in the format the suffix names."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps({"results": rows}), encoding="utf-8")
    else:
        import pandas as pd

        frame = pd.DataFrame(rows)
        if path.suffix == ".csv":
            frame.assign(contexts=frame.contexts.map(json.dumps)).to_csv(path, index=False)
        else:
            frame.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet"])
def test_every_file_format_gives_the_same_experiment(tmp_path: Path, suffix: str) -> None:
    """The format is a detail. A table of text has no sign for an empty text, so that an empty cell is missing."""
    result = ragstone.evaluate(write(tmp_path / f"s{suffix}", ROWS), judge="lexical")
    rows = [{k: v for k, v in row.items() if v != ""} for row in ROWS] if suffix == ".csv" else ROWS
    expected = ragstone.evaluate(rows, judge="lexical")

    assert [(o.key, o.outcome) for o in expected.outcomes] == [(o.key, o.outcome) for o in result.outcomes]


def test_every_sample_and_metric_ends_in_exactly_one_outcome() -> None:
    """In the order of the samples, then of the metrics."""
    result = ragstone.evaluate(ROWS, judge="lexical")

    assert [(s.id, c.name) for s in result.samples for c in result.cards] == [
        (o.sample_id, o.metric) for o in result.outcomes
    ]


def test_a_missing_reference_is_not_applicable_and_named() -> None:
    """Not a zero, not a dropped row: the table says which field is missing."""
    result = ragstone.evaluate(ROWS, ["ccrs.ac"], judge="lexical")
    (summary,) = result.summary()

    assert (2, 0, 1, ("reference",)) == (
        summary.n_scored, summary.n_failed, summary.n_not_applicable, summary.missing
    )  # fmt: skip
    assert "not applicable without reference" in str(result)


def test_the_table_says_why_a_metric_is_not_applicable() -> None:
    """The most frequent reason stands under the table, and how many others there are; programs get all."""
    card = resolve_metrics(["ccrs.qr"])[0].card
    common = {"metric": card.name, "metric_version": card.version}
    reasons = ["too short", "too long", "too long", "too odd"]
    absent = [NotApplicable(sample_id=str(i), reason=reason, **common) for i, reason in enumerate(reasons)]
    many, one = summarize(absent, [card]), summarize(absent[1:3], [card])

    assert {"too long": 2, "too short": 1, "too odd": 1} == many[0].reasons
    assert "ccrs.qr: not applicable to 4: too long (2 samples, 2 more reasons)" in format_table(many).splitlines()
    assert "ccrs.qr: not applicable to 2: too long" in format_table(one).splitlines()


def test_failures_are_counted_and_bounded() -> None:
    """The mean of the survivors never stands alone."""
    card = resolve_metrics(["ccrs.qr"])[0].card
    common = {"metric": card.name, "metric_version": card.version}
    summary = summarize(
        [
            Score(sample_id="1", value=0.5, method="single_reply", **common),
            Failure(sample_id="2", kind="timeout", reason="slow", **common),
            NotApplicable(sample_id="3", reason="none", **common),
        ],
        [card],
    )
    table = format_table(summary)

    assert (0.25, 0.75) == summary[0].bounds
    assert "1 / 1 / 1" in table
    assert "1 timeout" in table
    assert "[0.250, 0.750]" in table


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ([0.5, 0.6], (0.5, 0.55)),
        ([0.41742979353768533 - 1e-12, 0.6], (0.458714897, 0.55)),
        (None, (0.458714897, 0.615529289)),
        ([0.6, 0.5], (0.458714897, 0.615529289)),
        ([0.1, 0.6], (0.458714897, 0.615529289)),
        ([0.5], (0.458714897, 0.615529289)),
        ("0.5", (0.458714897, 0.615529289)),
        (["0.5", 0.6], (0.458714897, 0.615529289)),
        ([float("nan"), 0.6], (0.458714897, 0.615529289)),
    ],
)
def test_a_failure_that_knows_its_bounds_narrows_those_of_the_mean(bounds, expected):
    """Of UDCG some passages may be known; what is no pair of bounds in the metric's range counts as none."""
    card = resolve_metrics("udcg")[0].card
    shared = {"metric": "udcg", "metric_version": card.version}
    outcomes = [
        Score(sample_id="a", value=0.5, method="exact_sequence", **shared),
        Failure(sample_id="b", kind="timeout", reason="late", details={"bounds": bounds}, **shared),
    ]
    (summary,) = summarize(outcomes, [card])

    assert expected == pytest.approx(summary.bounds, abs=1e-8)
    assert {"timeout": 1} == summary.failure_kinds


def test_no_score_is_no_number() -> None:
    """Zero scored samples have no mean."""
    result = ragstone.evaluate([{"query": "q", "response": "r"}], ["ccrs.ir"], judge="lexical")

    assert "no score" in str(result)
    assert None is result.to_dict()["metrics"][0]["mean"]


def test_the_baseline_says_that_it_is_one() -> None:
    """No one shall take word overlap for a judge."""
    assert "not a judge" in str(ragstone.evaluate(ROWS, judge="lexical"))


def test_a_users_baseline_is_named_in_the_table_in_json_and_in_comparisons(tmp_path: Path) -> None:
    """Every output recognizes a judge whose identity has `is_baseline=True`, also from stored outcomes."""

    class Coin(FakeJudge):
        identity = JudgeIdentity(name="coin", hash="1", is_baseline=True)

    result = ragstone.evaluate(ROWS, "ccrs.qr", judge=Coin())
    assert "not a judge" in str(result)
    assert result.to_dict()["judge_is_baseline"]
    result.to_jsonl(tmp_path / "o.jsonl")
    compared = ragstone.compare({"a": tmp_path / "o.jsonl", "b": result})
    assert compared.to_dict()["judge_is_baseline"]


def test_it_works_inside_a_running_loop() -> None:
    """A notebook has a loop running; nothing is patched."""

    async def cell() -> int:
        return len(ragstone.evaluate(ROWS, judge="lexical").outcomes)

    assert 15 == asyncio.run(cell())
    assert 15 == len(asyncio.run(ragstone.aevaluate(ROWS, judge="lexical")).outcomes)


def test_references_are_joined_by_id() -> None:
    """And do not overrule what a row already has."""
    rows = [row | {"id": str(number)} for number, row in enumerate(ROWS, start=1)]
    result = ragstone.evaluate(rows, ["ccrs.ac"], judge="lexical", references={"2": ["Anna."], "1": ["Nowhere."]})

    assert [("At the river.",), ("Anna.",), ("Nobody knows.",)] == [s.reference for s in result.samples]


def test_bad_rows_stop_the_run_before_anything_is_spent(tmp_path: Path) -> None:
    """All of them are named at once, with the way out."""
    path = tmp_path / "s.jsonl"
    path.write_text('{"query": "a"}\nnot json\n{"query": ["b"]}\n', encoding="utf-8")
    judge = FakeJudge()

    with pytest.raises(DataError, match=r"(?s)2 of 3 rows.*line 2.*row 3.*skip") as caught:
        ragstone.evaluate(path, judge=judge)

    assert "--on-bad-row skip" in str(caught.value)


def test_bad_rows_can_be_left_out_and_are_counted(tmp_path: Path) -> None:
    """They are in no number, and the table says how many there were."""
    path = tmp_path / "s.jsonl"
    path.write_text('{"query": "a", "answer": "b"}\nnot json\n', encoding="utf-8")

    result = ragstone.evaluate(path, ["ccrs.qr"], judge="lexical", on_bad_row="skip")

    assert [2] == [r.position for r in result.rejected]
    assert "invalid rows, excluded from all numbers: 1" in str(result)


def test_what_to_do_with_bad_rows_is_not_guessed() -> None:
    """A typo does not mean "skip"."""
    with pytest.raises(ConfigurationError, match="'ignore'"):
        ragstone.evaluate(ROWS, judge="lexical", on_bad_row="ignore")  # type: ignore[arg-type]


def test_duplicate_ids_are_refused() -> None:
    """Outcomes are keyed by id, so a second row of the same id would vanish."""
    with pytest.raises(DataError, match="id 'x' of row 1"):
        ragstone.evaluate([{"id": "x", "query": "a"}, {"id": "x", "query": "b"}], judge="lexical")


@pytest.mark.parametrize(
    ("data", "error", "match"),
    [
        ("no-such.jsonl", ConfigurationError, "file not found: 'no-such.jsonl'"),
        ([], DataError, r"does not contain valid samples \(0 rows rejected\)\. Give rows with at least a query"),
    ],
)
def test_no_data_is_an_error(data: object, error: type[Exception], match: str) -> None:
    """An empty table would look like a result."""
    with pytest.raises(error, match=match):
        ragstone.evaluate(data, judge="lexical")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["s.txt", "s.parquet", "s.json"])
def test_files_that_are_not_what_they_say(tmp_path: Path, name: str) -> None:
    """Garbage is named as such."""
    path = tmp_path / name
    path.write_text("garbage", encoding="utf-8")

    with pytest.raises((ConfigurationError, DataError), match=name):
        ragstone.evaluate(path, judge="lexical")


def test_a_sink_that_is_down_costs_no_score() -> None:
    """What was paid for comes back, with what the sink said."""

    class Down(MemorySink):
        async def write(self, batch: object) -> None:
            raise SinkUnavailableError("no route")

    result = ragstone.evaluate(ROWS, judge="lexical", sinks=[Down()])

    assert 15 == len(result.outcomes)
    assert ("memory: no route (15 of 15 outcomes)",) == result.sink_errors == tuple(result.to_dict()["sink_errors"])
    assert "not delivered to memory: no route (15 of 15 outcomes)" in str(result)


class Choosy(MemorySink):
    """Says of each batch what `answer` says; counts its calls."""

    def __init__(self, answer: Callable[[list[Delivery]], object]) -> None:
        super().__init__()
        self.answer = answer
        self.sizes: list[int] = []

    async def write(self, batch: Sequence[Delivery]) -> object:
        self.sizes.append(len(batch))
        errors = self.answer(list(batch)) or {}
        await super().write([d for d in batch if d.outcome.id not in errors])
        return errors


def test_what_a_sink_says_of_single_outcomes_is_told() -> None:
    """Those it refuses are errors, the most frequent first and the rarest together; those without a place are counted."""

    def answer(batch: list[Delivery]) -> dict[str, SinkError]:
        words = ["down"] * 3 + ["no column"] * 2 + ["a", "b", "c"]
        errors: list[SinkError] = [SinkUnavailableError(w) if w == "down" else SinkRejectedError(w) for w in words]
        errors += [SinkNoTargetError("no trace")] * 4
        return {d.outcome.id: error for d, error in zip(batch, errors, strict=False)}

    sink = Choosy(answer)
    result = ragstone.evaluate(ROWS, judge="lexical", sinks=[sink, MemorySink("other")])

    assert (
        "memory: down (3 of 15 outcomes)",
        "memory: no column (2 of 15 outcomes)",
        "memory: a (1 of 15 outcomes)",
        "memory: 2 other reasons (2 of 15 outcomes)",
    ) == result.sink_errors
    assert {"memory": 4} == result.sink_skipped == result.to_dict()["sink_skipped"]
    assert "skipped by memory: 4 of 15 outcomes" in str(result)
    assert 3 == len(sink.deliveries)


def test_a_row_at_fault_holds_back_no_other() -> None:
    """A batch that is refused is split, down to the row."""
    bad = ragstone.evaluate(ROWS, judge="lexical").outcomes[7].id

    def answer(batch: list[Delivery]) -> None:
        if bad in {d.outcome.id for d in batch}:
            raise SinkRejectedError("no column")

    sink = Choosy(answer)
    result = ragstone.evaluate(ROWS, judge="lexical", sinks=[sink])

    assert ("memory: no column (1 of 15 outcomes)",) == result.sink_errors
    assert {o.id for o in result.outcomes} - {bad} == set(sink.by_id)
    assert {} == result.sink_skipped


@pytest.mark.parametrize(
    ("error", "words"),
    [(SinkDeniedError("401"), "401"), (SinkUnavailableError("no route"), "no route"), (KeyError("x"), "KeyError: 'x'")],
)
def test_a_sink_that_fails_is_not_asked_again(monkeypatch: pytest.MonkeyPatch, error: Exception, words: str) -> None:
    """What had arrived by then has; the rest is counted, also when the sink breaks its promise of what it raises."""
    monkeypatch.setattr("ragstone.experiments._evaluate._BATCH", 4)

    def answer(batch: list[Delivery]) -> None:
        if len(sink.sizes) > 1:
            raise error

    sink = Choosy(answer)
    result = ragstone.evaluate(ROWS, judge="lexical", sinks=[sink])

    assert (f"memory: {words} (11 of 15 outcomes)",) == result.sink_errors
    assert [4, 4] == sink.sizes
    assert 4 == len(sink.deliveries)


def test_outcomes_reach_the_sinks_and_the_data_frame(tmp_path: Path) -> None:
    """One row a sample and metric, everywhere."""
    sink = MemorySink()
    result = ragstone.evaluate(ROWS, judge="lexical", sinks=[sink])
    result.to_jsonl(tmp_path / "o.jsonl")
    frame = result.to_pandas()

    assert 15 == len(sink.deliveries) == len(frame) == len((tmp_path / "o.jsonl").read_text().splitlines())
    assert {"id", "metric", "outcome", "value", "reason", "query", "response"} <= set(frame.columns)


def test_progress_is_told() -> None:
    """At the start, and once a sample, ending with all of them."""
    seen: list[tuple[int, int]] = []
    ragstone.evaluate(ROWS, judge="lexical", progress=lambda done, total: seen.append((done, total)))

    assert [(0, 3), (1, 3), (2, 3), (3, 3)] == seen


def test_a_csv_row_with_too_many_cells_is_rejected(tmp_path: Path) -> None:
    """An answer with a comma that no one quoted would be scored by its first half."""
    path = tmp_path / "s.csv"
    path.write_text("question,answer\nq,yes,\nq,yes, but no\n", encoding="utf-8")

    samples, rejected = read_samples(path, on_bad_row="skip")

    assert ["yes"] == [s.response for s in samples]
    assert ["the row that ends in line 3 has more cells than the header"] == [r.reason for r in rejected]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_csv_with_the_separator_of_a_spreadsheet_is_read(tmp_path: Path, separator: str) -> None:
    """In countries with a decimal comma, spreadsheets write semicolons. Texts may contain the other separators."""
    path = tmp_path / "s.csv"
    rows = [["question", "answer", "Frage"], ["q, r", '"a; b\tc"', ""]]
    path.write_text("\n".join(separator.join(row) for row in rows), encoding="utf-8-sig")
    (sample,), _ = read_samples(path)
    assert ("q, r", "a; b\tc", {"Frage": ""}) == (sample.query, sample.response, sample.metadata)

    (sample,), _ = read_samples(path, fields={"query": "Frage"})
    assert sample.query is None


def test_the_header_of_a_csv_decides_about_its_separator(tmp_path: Path) -> None:
    """Names of columns contain commas and semicolons, but hardly ever tabs, so a tab wins."""
    path = tmp_path / "s.csv"
    path.write_text("question,a;b\nq,c\n", encoding="utf-8")
    (sample,), _ = read_samples(path)
    assert ("q", {"a;b": "c"}) == (sample.query, sample.metadata)

    path.write_text("question\ta, b\nq\tc\n", encoding="utf-8")
    (sample,), _ = read_samples(path)
    assert ("q", {"a, b": "c"}) == (sample.query, sample.metadata)

    path.write_text("question,a\tb\nq,c\n", encoding="utf-8")
    with pytest.raises(DataError, match="has fewer cells than the header"):
        read_samples(path)


def test_two_csv_columns_with_one_name_are_an_error(tmp_path: Path) -> None:
    """The csv module would use the last one. Columns without a name, such as empty ones of a spreadsheet, are no error."""
    path = tmp_path / "s.csv"
    path.write_text("question,answer,answer\nq,31 m,32 m\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"s\.csv' has 2 columns with the name 'answer'\. Rename or remove all but one"):
        read_samples(path, on_bad_row="skip")

    path.write_text("question,answer,,\nq,31 m,,\n", encoding="utf-8")
    (sample,), _ = read_samples(path)
    assert "31 m" == sample.response


def test_a_csv_in_another_encoding_is_named(tmp_path: Path) -> None:
    """Excel writes such files."""
    path = tmp_path / "s.csv"
    path.write_bytes("question,answer\nqué,sí\n".encode("latin-1"))

    with pytest.raises(DataError, match=r"line 2 of .* is not UTF-8: byte 0xe9"):
        read_samples(path)


def test_fields_that_name_nothing_of_ours_are_refused() -> None:
    """The two sides are easily swapped."""
    with pytest.raises(ConfigurationError, match="'Frage' is not a field of a sample"):
        read_samples(ROWS, fields={"Frage": "query"})


def test_correct_answers_that_belong_to_no_sample_are_refused() -> None:
    """Without a word, every metric that needs them would be not applicable."""
    with pytest.raises(DataError, match="no sample id matches a reference id"):
        read_samples([{"query": "q"}], references={"elsewhere": ["r"]})
