"""Rows of two files are matched by id, or by their question without one, and never by position."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragstone
from ragstone.errors import DataError
from ragstone.experiments import Comparison, Experiment, add_labels, explain_answer
from ragstone.experiments._outcome_file import question_number
from ragstone.reading import read_samples
from ragstone.schema import Captured, Trace, Turn, fingerprint
from ragstone.store import open_store
from ragstone_lab import validate_metrics

Row = dict[str, Any]
N = 40


def rows(n_right: int, *, n: int = N) -> list[Row]:
    """Rows without ids. The first `n_right` answers are the reference."""
    return [
        {
            "query": f"Which number is {i}?",
            "reference": f"number {i}",
            "response": f"number {i}" if i < n_right else "no",
        }
        for i in range(n)
    ]


def with_ids(found: Sequence[Row]) -> list[Row]:
    """Number rows by their position, as exports do."""
    return [row | {"id": str(number)} for number, row in enumerate(found)]


def shuffled(found: Sequence[Row], seed: int = 1) -> list[Row]:
    """The rows in another order."""
    return random.Random(seed).sample(list(found), len(found))


def evaluate(found: Sequence[Row], **options: Any) -> Experiment:
    """Score answers by their words, without a judge."""
    return ragstone.evaluate(found, ["rouge_l"], judge="lexical", **options)


def compare(*systems: Sequence[Row]) -> Comparison:
    """Compare systems with these rows."""
    return ragstone.compare([evaluate(system) for system in systems])


def written(experiment: Experiment, path: Path) -> Path:
    """Write the outcomes to a file."""
    experiment.to_jsonl(path)
    return path


class TestFingerprint:
    """The fingerprint of a question and its history."""

    @given(st.text(), st.text())
    def test_only_whitespace_and_unicode_normalization_do_not_count(self, first: str, second: str) -> None:
        """Two texts have one fingerprint exactly if they are equal apart from whitespace and NFC."""
        import unicodedata

        plain = [" ".join(unicodedata.normalize("NFC", text).split()) for text in (first, second)]
        assert (plain[0] == plain[1]) == (fingerprint(first) == fingerprint(second))

    @pytest.mark.parametrize("same", ["Où est-il?", "  Où est-il?\r\n", "Ou\u0300 est-il?", "Où\test-il?"])
    def test_the_same_question_in_another_encoding(self, same: str) -> None:
        """Line ends, outer blanks and composed characters do not change a question."""
        assert fingerprint("Où est-il?") == fingerprint(same)

    def test_the_history_is_a_part_of_the_question(self) -> None:
        """A follow-up is another question after another conversation, and after another speaker."""
        before = [(), (Turn(role="user", text="Who?"),), (Turn(role="assistant", text="Who?"),)]
        marks = {fingerprint("And then?", history) for history in before}
        assert len(marks) == 3
        assert all(mark is not None and len(mark) == 24 and set(mark) <= set("0123456789abcdef") for mark in marks)

    def test_texts_do_not_move_between_turns(self) -> None:
        """The border of two messages counts."""
        one, other = ((Turn(role="user", text=a), Turn(role="user", text=b)) for a, b in (("a b", "c"), ("a", "b c")))
        assert fingerprint("q", one) != fingerprint("q", other)

    @pytest.mark.parametrize("missing", [None, "", " \n"])
    def test_without_a_question_there_is_none(self, missing: str | None) -> None:
        """An unknown question is not a question that two rows share."""
        assert fingerprint(missing) is None

    def test_every_outcome_has_it_also_in_the_file(self, tmp_path: Path) -> None:
        """Scores, failures and what does not apply have the fingerprint of their sample."""
        found = ragstone.evaluate(
            [{"id": "a", "query": "Why?", "response": "So."}, {"id": "b", "query": "Why?", "reference": "So."}],
            ["rouge_l", "ccrs.cc"],
            judge="lexical",
        )
        lines = written(found, tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
        assert [fingerprint("Why?")] * 4 == [json.loads(line)["fingerprint"] for line in lines]

    def test_an_application_that_fails_has_the_question_of_its_row(self) -> None:
        """The outcome of a call that raised an error can be matched like the others."""

        def fail(query: str) -> str:
            raise ValueError(query)

        found = evaluate([{"query": "Why?", "reference": "So."}], app=fail, stop_early=False)
        assert [fingerprint("Why?")] == [outcome.fingerprint for outcome in found.outcomes]


class TestCompare:
    """Which rows are compared with each other."""

    @pytest.mark.parametrize("prepare", [list, with_ids], ids=["without ids", "with ids"])
    @settings(max_examples=10)
    @given(seed=st.integers(0, 2**32))
    def test_the_order_of_rows_changes_nothing(self, prepare: Callable[[list[Row]], list[Row]], seed: int) -> None:
        """Any order of the rows of both files gives the same comparison, to the last digit."""
        first, second = prepare(rows(5, n=12)), prepare(rows(9, n=12))
        expected = compare(first, second).to_dict()
        assert expected == compare(shuffled(first, seed), shuffled(second, seed + 1)).to_dict()

    def test_a_difference_is_found_in_shuffled_rows_without_ids(self) -> None:
        """A difference that is significant in ordered rows is it in shuffled rows: 10 of 40 answers are better."""
        found = compare(rows(20), shuffled(rows(30))).metrics[0].pairs[0]
        assert (N, 30, {0, 10}, "B") == (found.n, found.n_equal, {found.n_higher, found.n_lower}, found.better)

    def test_the_same_ids_with_other_questions_are_refused(self) -> None:
        """Row numbers as ids of shuffled rows: named with both questions, counted, with the way out."""
        first, second = with_ids(rows(20, n=6)), with_ids(rows(6, n=6)[::-1])
        with pytest.raises(DataError) as error:
            compare(first, second)
        assert str(error.value).startswith(
            "6 of 6 common ids belong to different questions: '0' is 'Which number is 0?' in A and 'Which number is 5?' in B; "
            "'1' is "
        )
        assert "--field id=COLUMN" in str(error.value)

    @given(st.integers(0, 5))
    def test_one_other_question_is_enough(self, changed: int) -> None:
        """A single pair of different questions is an error, also in files."""
        second = with_ids(rows(6, n=6))
        second[changed]["query"] = "Why?"
        with pytest.raises(DataError, match="1 of 6 common ids belong to different questions"):
            compare(with_ids(rows(3, n=6)), second)

    def test_files_of_outcomes_are_checked_and_name_questions_with_data(self, tmp_path: Path) -> None:
        """A file of outcomes has fingerprints but no texts. The texts of `data` are in the message."""
        systems = {"a": with_ids(rows(3, n=6)), "b": with_ids(shuffled(rows(3, n=6)))}
        files = {name: written(evaluate(found), tmp_path / f"{name}.jsonl") for name, found in systems.items()}
        with pytest.raises(DataError, match="common ids belong to different questions: '0'; "):
            ragstone.compare(files)
        data = {name: read_samples(found)[0] for name, found in systems.items()}
        with pytest.raises(DataError, match="'0' is 'Which number is 0\\?' in a and 'Which number is 1\\?' in b"):
            ragstone.compare(files, data=data)

    def test_unpaired_systems_may_have_the_same_ids(self) -> None:
        """Different traffic is not matched, so its ids do not matter."""
        first, second = evaluate(with_ids(rows(3, n=6))), evaluate(with_ids(rows(3, n=6)[::-1]))
        assert not ragstone.compare([first, second], paired=False).paired

    @pytest.mark.parametrize("swapped", [False, True])
    def test_rows_without_ids_are_matched_with_rows_that_have_them(self, swapped: bool) -> None:
        """The question finds the row, and the answers of both are shown under the given id."""
        systems = [with_ids(rows(20)), shuffled(rows(30))]
        found = compare(*(systems[::-1] if swapped else systems))
        assert (N, N) == (found.n_common, found.metrics[0].pairs[0].n)
        changed = found.changed("rouge_l")
        assert {str(i) for i in range(20, 30)} == {each.sample_id for each in changed}
        answers = [answer for answers in found.view().answers.values() for answer in answers.values()]
        texts = {"".join(span.text for span in answer.response) for answer in answers}
        assert "no" in texts
        assert any(text.startswith("number ") for text in texts)

    @pytest.mark.parametrize("swapped", [False, True])
    def test_two_rows_without_ids_and_one_question_are_left_out(self, swapped: bool) -> None:
        """Nothing says which of them is which, so they are counted and named, with the way out."""
        systems = [[*rows(20), rows(0)[7] | {"response": "maybe"}], rows(30)]
        found = compare(*(systems[::-1] if swapped else systems))
        assert N - 1 == found.n_common
        (note,) = [note for note in found.notes if "without an id" in note]
        assert note.startswith("WARNING 2 samples without an id have a question that several samples")
        assert "'Which number is 7?'" in note
        assert "--field id=COLUMN+COLUMN" in note

    def test_nothing_is_left_to_compare(self) -> None:
        """If all rows are ambiguous, the comparison is refused."""
        twice = [*rows(3, n=6), *rows(2, n=6)]
        with pytest.raises(DataError, match="12 samples without an id have a question that several"):
            compare(twice, twice)

    def test_a_question_with_two_ids_is_not_guessed(self) -> None:
        """A row without an id does not belong to one of two ids with its question."""
        several = with_ids([*rows(3, n=6), rows(3, n=6)[0]])
        found = compare(several, rows(4, n=6))
        assert 5 == found.n_common
        assert any("1 sample without an id has a question" in note for note in found.notes)

    def test_a_row_without_an_id_is_not_a_row_of_the_same_system(self) -> None:
        """A system that has a question with an id and again without one has two answers to it."""
        several = [*with_ids(rows(3, n=6)), rows(6, n=6)[5]]
        found = compare(several, with_ids(rows(4, n=6)))
        assert (6, 4) == (found.n_common, sum(found.scores.metrics["rouge_l"].values[:, 1] > 0.99))
        assert 3 == sum(found.scores.metrics["rouge_l"].values[:, 0] > 0.99)
        assert any("1 sample without an id has a question" in note for note in found.notes)

    def test_a_question_is_known_if_one_outcome_names_it(self, tmp_path: Path) -> None:
        """Other metrics of the same sample may come from a program that does not write fingerprints."""
        metrics = ["rouge_l", "exact_match"]
        path = written(ragstone.evaluate(with_ids(rows(3, n=6)), metrics), tmp_path / "a.jsonl")
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            if line["metric"] == "exact_match":
                del line["fingerprint"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        other = ragstone.evaluate(with_ids(rows(3, n=6)[::-1]), metrics)
        with pytest.raises(DataError, match="6 of 6 common ids belong to different questions"):
            ragstone.compare([path, other])
        with pytest.raises(DataError, match="have outcomes of different questions"):
            mixed = path.read_text(encoding="utf-8") + written(other, tmp_path / "b.jsonl").read_text(encoding="utf-8")
            path.write_text(mixed, encoding="utf-8")
            ragstone.compare([path, path])

    def test_unknown_questions_are_counted(self, tmp_path: Path) -> None:
        """Outcomes of another program may not have fingerprints. They are matched by id, and this is said."""
        path = written(evaluate(with_ids(rows(20))), tmp_path / "old.jsonl")
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for line in lines[:4]:
            del line["fingerprint"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        other = with_ids(rows(30))
        del other[4]["query"]
        for line in lines:
            if line["sample_id"] == "4":
                del line["fingerprint"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        notes = ragstone.compare([path, evaluate(other)]).notes
        assert "4 of 40 common samples were matched by id alone: a system does not have their questions" in notes

    def test_rows_without_a_question_and_an_id_are_not_matched(self) -> None:
        """Their answers differ, so nothing shows which of them belong together: no position is an id."""
        first, second = ([{k: v for k, v in row.items() if k != "query"} for row in rows(n, n=6)] for n in (0, 6))
        with pytest.raises(DataError, match="does not share samples"):
            compare(first, second)


class TestIds:
    """Ids of rows without one, from several columns, and ids that occur twice."""

    def test_numbers_of_questions_differ(self) -> None:
        """They are what outcomes are matched by, so two questions must not share one."""
        assert 5000 == len({question_number(fingerprint(f"Which number is {i}?")) for i in range(5000)})

    @given(st.permutations(range(6)))
    def test_the_id_of_a_row_does_not_depend_on_its_position(self, order: Sequence[int]) -> None:
        """A row without an id has the id of its question in any order."""
        found = rows(3, n=6)
        expected = {sample.query: sample.id for sample in read_samples(found)[0]}
        assert expected == {sample.query: sample.id for sample in read_samples([found[i] for i in order])[0]}

    def test_several_columns_make_an_id(self, tmp_path: Path) -> None:
        """In a file and in rows. A column with this whole name comes first, and the columns stay metadata."""
        row = {"dataset": "d", "query_id": 7, "model": "m", "query": "Why?"}
        path = tmp_path / "rows.jsonl"
        path.write_text(json.dumps(row), encoding="utf-8")
        fields = {"id": "dataset+query_id+model"}
        for source in ([row], path):
            (sample,) = read_samples(source, fields=fields)[0]
            assert ("d+7+m", "m") == (sample.id, sample.metadata["model"])
        (sample,) = read_samples([row | {"dataset+query_id+model": "x"}], fields=fields)[0]
        assert "x" == sample.id

    def test_a_missing_part_of_an_id_is_an_error(self) -> None:
        """It is named, whether the column or only its value is missing."""
        with pytest.raises(DataError, match="does not have the field 'b', which was named for 'id'"):
            read_samples([{"a": 1, "query": "Why?"}], fields={"id": "a+b"})
        with pytest.raises(DataError, match="does not have a value of 'b', which is a part of its id 'a\\+b'"):
            read_samples([{"a": 1, "b": "", "query": "Why?"}], fields={"id": "a+b"})

    @pytest.mark.parametrize("is_file", [False, True])
    def test_several_answers_to_one_question_name_the_columns(self, tmp_path: Path, is_file: bool) -> None:
        """The smallest set of columns that makes ids unique is in the message, ready to be used, and works."""
        found = [
            {
                "query_id": f"q{i}",
                "dataset": dataset,
                "model": model,
                "length": "3",
                "query": f"{i}?",
                "response": model,
            }
            for dataset in ("x", "y")
            for i in range(3)
            for model in ("m", "n")
        ]
        source: Any = found
        if is_file:
            source = tmp_path / "rows.jsonl"
            source.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
        with pytest.raises(DataError) as error:
            read_samples(source)
        assert "--field id=query_id+dataset+model (fields={'id': 'query_id+dataset+model'})" in str(error.value)
        assert "skip" not in str(error.value)
        samples, _ = read_samples(source, fields={"id": "query_id+dataset+model"})
        assert 12 == len({sample.id for sample in samples})

    def test_one_column_is_enough(self) -> None:
        """No column is added that is not needed."""
        found = [{"id": "a", "model": model, "day": model, "query": "Why?"} for model in "mn"]
        with pytest.raises(DataError, match=r"--field id=id\+model \("):
            read_samples(found)

    def test_answers_that_no_column_tells_apart(self) -> None:
        """The message asks for a column."""
        with pytest.raises(DataError, match="If there are none, add a column that is"):
            read_samples([{"id": "a", "model": "m", "query": "Why?", "response": text} for text in "xy"])


class TestData:
    """`--data` and files that hold several evaluations."""

    def test_data_of_other_rows_is_refused(self, tmp_path: Path) -> None:
        """Texts of other questions are not shown beside scores."""
        path = written(evaluate(with_ids(rows(3, n=6))), tmp_path / "a.jsonl")
        other = read_samples(with_ids(rows(3, n=6)[::-1]))[0]
        with pytest.raises(
            DataError, match="6 of 6 common ids of a and its samples \\(--data\\) belong to different questions"
        ):
            explain_answer(path, "0", samples=other)
        with pytest.raises(DataError, match="6 of 6 common ids of a and its samples"):
            ragstone.compare({"a": path, "b": path}, data={"a": other})

    @pytest.mark.parametrize("had_ids", [False, True])
    def test_data_is_found_by_question(self, tmp_path: Path, had_ids: bool) -> None:
        """Outcomes and rows belong together by question if only one of them has ids."""
        plain = rows(3, n=6)
        scored, data = (with_ids(plain), shuffled(plain)) if had_ids else (plain, with_ids(shuffled(plain)))
        path = written(evaluate(scored), tmp_path / "a.jsonl")
        for id_, query in ((sample.id, sample.query) for sample in read_samples(scored)[0]):
            answer = explain_answer(path, id_, samples=read_samples(data)[0])
            assert answer is not None
            assert query == answer.query

    def test_a_question_of_two_rows_finds_neither(self, tmp_path: Path) -> None:
        """Nothing says which of both was scored, so no text is shown."""
        path = written(evaluate(with_ids(rows(3, n=6))), tmp_path / "a.jsonl")
        data = [*rows(3, n=6), rows(6, n=6)[5] | {"id": "again"}]
        found = [explain_answer(path, id_, samples=read_samples(data)[0]) for id_ in ("0", "5")]
        assert ["Which number is 0?", None] == [answer and answer.query for answer in found]

    def test_repeats_of_one_id_have_one_question(self, tmp_path: Path) -> None:
        """Two evaluations of other rows in one file are not repeats of a sample."""
        path = written(evaluate(with_ids(rows(3, n=6))), tmp_path / "a.jsonl")
        text = path.read_text(encoding="utf-8")
        path.write_text(text + text, encoding="utf-8")
        assert 6 == ragstone.compare([path, path]).n_common
        other = written(evaluate(with_ids(rows(3, n=6)[::-1])), tmp_path / "b.jsonl").read_text(encoding="utf-8")
        path.write_text(text + other, encoding="utf-8")
        with pytest.raises(
            DataError, match=r"6 of 6 ids of '.*a\.jsonl' have outcomes of different questions: '0', '1', '2', \.\.\."
        ):
            ragstone.compare([path, path])


class TestRepeats:
    """Samples that are scored again, and rankings of systems."""

    def test_repeats_of_other_questions_are_refused(self) -> None:
        """Flips and pass@k would compare different questions."""
        first, again, other = (
            evaluate(found) for found in (with_ids(rows(3)), shuffled(with_ids(rows(3))), with_ids(rows(3)[::-1]))
        )
        assert validate_metrics({"a": first}, repeats=[again]).repeatability[0].rate.n == N
        with pytest.raises(
            DataError, match=r"40 of 40 ids belong to different questions: '0' of a and its repeat experiment, '1' of"
        ):
            validate_metrics({"a": first}, repeats=[other])
        with pytest.raises(DataError, match=r"40 of 40 ids belong to different questions: '0' of a and b"):
            validate_metrics({"a": first, "b": other})

    def test_repeats_without_ids_are_matched_by_question(self) -> None:
        """Rows in another order are repeats of their question."""
        report = validate_metrics(evaluate(rows(20)), repeats=[evaluate(shuffled(rows(30)))])
        rate = report.repeatability[0].rate
        assert (N, 10 / N) == (rate.n, rate.items.value)


class TestLabels:
    """Labels of people for requests of a store."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Path:
        """A store with two requests."""
        path = tmp_path / "app.db"
        with open_store(path, mode="own") as opened:
            opened.traces.ingest(
                "s",
                1,
                [
                    Captured(trace=Trace(trace_id=id_, query=query, source="x", started_at=1.0))
                    for id_, query in self.requests
                ],
            )
        return path

    requests = (("t1", "Who wrote it?"), ("t2", "Where is it?"))

    def test_an_id_with_another_question_is_refused(self, store: Path) -> None:
        """A shuffled column of ids does not give labels to other requests: nothing is saved."""
        found = [
            {"trace_id": id_, "question": query, "label": "wrong"}
            for id_, (_, query) in zip(("t2", "t1"), self.requests, strict=True)
        ]
        with pytest.raises(DataError, match="'t2' has the question 'Where is it\\?', not 'Who wrote it\\?'") as error:
            add_labels(store, found, author="ada")
        assert str(error.value).startswith("no label was saved, because 2 rows are invalid")

    @pytest.mark.parametrize("question", ["Who wrote it?", " Who wrote\r\nit? "])
    def test_a_question_is_found_whatever_its_whitespace(self, store: Path, question: str) -> None:
        """A spreadsheet changes line ends and blanks."""
        for row in ({"question": question}, {"question": question, "trace_id": "t1"}):
            assert 1 == add_labels(store, [row | {"label": "correct"}], author="ada").n
        with open_store(store, mode="read") as opened:
            assert [("t1", 1.0)] == [(label.trace_id, label.value) for label in opened.labels.read()]
