"""`evaluate(rows, app=...)`: an application runs over a dataset, and what it retrieved and answered is scored."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ragstone
from ragstone import Experiment, Failure, Monitor, NotApplicable, Sample, Score
from ragstone.capture import suppress_capture
from ragstone.errors import ApplicationError, ConfigurationError, DataError
from ragstone.experiments._app import capture
from ragstone.requests import current_request

ROWS = [
    {"id": f"q{n}", "question": f"Where is stone {n}?", "ground_truth": "At the river.", "lang": "en"} for n in range(3)
]
FOUND = ["The stone lies at the river, near the old bridge.", "A second text that is not part of any prompt at all."]
METRICS = ["ccrs.ac", "ccrs.cc"]


def run(app: object, rows: list[dict[str, Any]] | None = None, **options: Any) -> Experiment:
    """Evaluate an application with the lexical baseline."""
    return ragstone.evaluate(ROWS if rows is None else rows, METRICS, app=app, judge="lexical", **options)


def texts(sample: Any) -> list[str] | None:
    """The contexts of a sample."""
    return None if sample.contexts is None else [passage.text for passage in sample.contexts]


async def ask_async(question: str) -> str:
    await asyncio.sleep(0)
    return f"answer to {question}"


def stream(question: str) -> Any:
    yield "answer "
    yield f"to {question}"


async def stream_async(question: str) -> Any:
    yield "answer "
    yield f"to {question}"


class Application:
    """An object that is called."""

    async def __call__(self, question: str) -> str:
        return f"answer to {question}"


REPLY = SimpleNamespace(
    choices=[SimpleNamespace(index=0, message=SimpleNamespace(content="answer to Where is stone 0?", tool_calls=None))],
    model="tiny-1",
    usage=SimpleNamespace(prompt_tokens=7, completion_tokens=3),
)


@pytest.mark.parametrize(
    "app",
    [
        lambda question: f"answer to {question}",
        ask_async,
        stream,
        stream_async,
        Application(),
        lambda question: {"response": f"answer to {question}"},
        lambda question: {"answer": f"answer to {question}", "others": 1},
        lambda question, *_: ask_async(question),
        lambda row: f"answer to {row.query}",
        lambda _: REPLY,
    ],
    ids=[
        "function",
        "async",
        "generator",
        "async generator",
        "object",
        "mapping",
        "named",
        "awaitable",
        "row",
        "client",
    ],
)
def test_every_kind_of_function_is_asked_and_read(app: Callable[[Any], Any]) -> None:
    """The answer of each is the response that is scored."""
    result = run(app, ROWS[:1])

    assert "answer to Where is stone 0?" == result.samples[0].response == result.traces[0].response
    assert ("ok", None) == (result.traces[0].status, result.traces[0].error)
    assert isinstance(result.outcomes[0], Score)


def test_a_client_response_gives_its_tokens_and_model() -> None:
    """They are in the trace and in the summary of the application."""
    result = run(lambda _: REPLY)

    assert ("tiny-1", 7, 3) == (
        result.traces[0].model,
        result.traces[0].usage.input_tokens,  # type: ignore[union-attr]
        result.traces[0].usage.output_tokens,  # type: ignore[union-attr]
    )
    assert (21, 9) == tuple(result.to_dict()["application"][f"{way}put_tokens"] for way in ("in", "out"))
    assert "21 + 9 tokens" in str(result)


def test_contexts_of_a_mapping_are_scored_and_the_row_keeps_its_labels() -> None:
    """Contexts and responses of the data are replaced, everything else is kept."""
    rows = [{**ROWS[0], "contexts": ["from the file"], "answer": "from the file", "qrels": {"d1": 1}}]
    result = run(lambda _: {"response": "At the river.", "contexts": [{"text": FOUND[0], "id": "d1"}]}, rows)
    (sample,) = result.samples

    assert ([FOUND[0]], "At the river.", ("At the river.",)) == (texts(sample), sample.response, sample.reference)
    assert ({"d1": 1.0}, {"lang": "en"}, "d1") == (sample.qrels, sample.metadata, sample.contexts[0].id)  # type: ignore[index]
    assert ("At the river.",) == result.traces[0].reference


def test_a_parameter_named_or_annotated_as_the_row_gets_the_sample() -> None:
    """The one rule for what a function is called with."""
    seen: list[object] = []

    def annotated(anything: Sample) -> str:
        seen.append(anything)
        return "x"

    def named(row):  # type: ignore[no-untyped-def]
        seen.append(row)
        return "x"

    run(annotated, ROWS[:1])
    run(named, ROWS[:1])
    assert [("q0", {"lang": "en"})] * 2 == [(sample.id, sample.metadata) for sample in seen]  # type: ignore[attr-defined]


def test_blocks_of_the_applications_own_monitor_join(tmp_path: Path) -> None:
    """An application that is captured live is evaluated as it is, and its store does not get the questions."""
    monitor = Monitor(store=tmp_path / "live.db", judge="lexical")

    def ask(question: str) -> str:
        with monitor.request(question) as request:
            hits = request.found(FOUND)
            request.prompt(f"{hits[0]}\n\n{question}")
            return request.answer("At the river, near the old bridge.")

    result = run(ask)
    monitor.close()

    assert [FOUND[:1]] * 3 == [texts(sample) for sample in result.samples]
    assert ["in_prompt"] * 3 == [sample.evidence.contexts for sample in result.samples]  # type: ignore[union-attr]
    assert 0 == monitor.counters.recorded
    assert not (tmp_path / "live.db").exists()


def test_a_function_can_use_the_current_request() -> None:
    """Without a monitor of its own."""

    def ask(question: str) -> str:
        current_request().found(FOUND[:1])
        return "At the river."

    assert [FOUND[:1]] * 3 == [texts(sample) for sample in run(ask).samples]


def test_calls_run_concurrently_up_to_the_limit() -> None:
    """Synchronous applications in threads: two calls meet, a third one never joins them."""
    meeting = threading.Barrier(2)
    running, most = [], []

    def ask(question: str) -> str:
        running.append(question)
        meeting.wait(100)
        most.append(len(running))
        meeting.wait(100)
        running.remove(question)
        return "x"

    run(ask, [{"question": str(n)} for n in range(4)], app_concurrency=2)
    assert 2 == max(most)


class ChatEngine:
    """Keeps a conversation, as LlamaIndex's chat engines do."""

    def __init__(self) -> None:
        self.history: list[str] = []

    def reset(self) -> None:
        self.history.clear()

    def chat(self, message: str) -> Any:
        self.history.append(message)
        return SimpleNamespace(response=f"turn {len(self.history)}")


def test_a_chat_engine_starts_again_for_each_sample() -> None:
    """And is asked one question after the other."""
    assert ["turn 1"] * 3 == [sample.response for sample in run(ChatEngine()).samples]


class TestRepeats:
    """`repeats=3`."""

    def test_scores_are_means_and_the_variation_is_reported(self) -> None:
        """One outcome for each sample and metric, with the values of the repeats."""
        answers = {question: iter(["At the river.", "Nowhere.", "At the river."]) for question in ("1", "2")}
        rows = [{"question": question, "reference": "At the river."} for question in answers]
        result = run(lambda question: next(answers[question]), rows, repeats=3, app_concurrency=1)
        first = result.outcomes[0]

        assert isinstance(first, Score)
        assert ([1.0, 0.0, 1.0], "mean_of_repeats", 0) == (
            first.details["repeats"],
            first.method,
            first.details["n_failed"],
        )
        assert pytest.approx(2 / 3) == first.value
        assert pytest.approx(3**-0.5) == first.details["standard_deviation"]
        assert 2 == result.summary()[0].n_scored
        ids = [f"{sample.id}#{repeat}" for sample in result.samples for repeat in (1, 2, 3)]
        assert ids == [trace.trace_id for trace in result.traces]
        assert "means of 3 repeats; standard deviation between repeats of a sample: ccrs.ac 0.577" in str(result)
        assert {"ccrs.ac": pytest.approx(3**-0.5)} == result.to_dict()["application"]["repeat_standard_deviations"]

    def test_a_repeat_that_fails_is_counted_and_the_others_count(self) -> None:
        """Only a sample without any score fails."""
        answers: Any = iter(["At the river.", None, "At the river."])
        result = run(lambda _: next(answers), ROWS[:1], repeats=3, app_concurrency=1)
        first = result.outcomes[0]

        assert isinstance(first, Score)
        assert ([1.0, None, 1.0], 1) == (first.details["repeats"], first.details["n_failed"])
        assert (3, 1) == tuple(result.to_dict()["application"][name] for name in ("n_calls", "n_failed"))

    def test_repeats_without_an_application_are_an_error(self) -> None:
        """There is nothing to repeat."""
        with pytest.raises(ConfigurationError, match="belong to an application"):
            run(None, repeats=2)


class TestFailures:
    """An error of the application is an outcome."""

    def test_an_exception_is_a_failure_with_type_and_message(self) -> None:
        """Of its sample alone."""

        def ask(question: str) -> str:
            if "1" in question:
                raise LookupError("no stone 1")
            return "At the river."

        result = run(ask)
        failed = [outcome for outcome in result.outcomes if isinstance(outcome, Failure)]

        assert ["q1", "q1"] == [outcome.sample_id for outcome in failed]
        assert {("application", "the application raised LookupError: no stone 1")} == {
            (o.kind, o.reason) for o in failed
        }
        assert ["ok", "error", "ok"] == [trace.status for trace in result.traces]
        assert "3 calls of the application, 1 failed" in str(result)

    @pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), StopIteration(), TimeoutError("db")])
    def test_unusual_exceptions_do_not_end_the_run(self, error: BaseException) -> None:
        """Whether the application is asynchronous or not."""

        def ask(question: str) -> str:
            raise error

        async def aask(question: str) -> str:
            raise error

        for app in (ask, aask):
            assert all(isinstance(outcome, Failure) and outcome.kind == "application" for outcome in run(app).outcomes)

    def test_an_application_that_cancels_its_own_task_fails(self) -> None:
        """The other samples are asked."""

        async def ask(question: str) -> str:
            if "1" in question:
                asyncio.current_task().cancel()  # type: ignore[union-attr]
                await asyncio.sleep(0)
            return "x"

        assert ["ok", "error", "ok"] == [trace.status for trace in run(ask).traces]

    def test_a_call_that_takes_too_long_fails(self) -> None:
        """The run does not wait for the thread that hangs."""
        never = threading.Event()
        result = run(lambda question: never.wait() if "1" in question else "x", app_timeout_s=0.2)
        never.set()
        (reason,) = {outcome.reason for outcome in result.outcomes if isinstance(outcome, Failure)}

        assert "did not answer within 0.2 s" in reason
        assert "(limits.app_timeout_s)" in reason

    @pytest.mark.parametrize("value", [None, 3, object()])
    def test_a_value_without_an_answer_fails_and_says_what_to_return(self, value: object) -> None:
        """It is not scored as an empty answer."""
        outcome = run(lambda _: value).outcomes[0]

        assert isinstance(outcome, Failure)
        assert f"returned {type(value).__name__}, which does not contain an answer" in outcome.reason
        assert "`response` and `contexts`" in outcome.reason

    def test_an_empty_answer_and_contexts_alone_are_answers(self) -> None:
        """An application that only retrieves is scored by metrics of retrieval."""
        assert isinstance(run(lambda _: "").outcomes[0], Score)
        alone = run(lambda _: {"contexts": FOUND})
        assert ([FOUND] * 3, 0) == ([texts(s) for s in alone.samples], alone.to_dict()["application"]["n_failed"])
        assert isinstance(alone.outcomes[0], NotApplicable)

    def test_the_run_stops_if_each_of_the_first_ten_samples_fails(self) -> None:
        """Nothing more is spent, and the message says how to continue."""
        asked: list[str] = []

        def ask(question: str) -> str:
            asked.append(question)
            raise ConnectionError("no key")

        rows = [{"question": str(n)} for n in range(40)]
        with pytest.raises(
            ApplicationError, match=r"first 10 of 40 samples.*ConnectionError: no key.*--set limits.stop_early=false"
        ):
            run(ask, rows, app_concurrency=1)
        assert len(asked) < 40
        assert 40 == run(ask, rows, stop_early=False).to_dict()["application"]["n_failed"]

    def test_one_answer_keeps_the_run_going(self) -> None:
        """Many failures are outcomes too."""
        rows = [{"question": str(n)} for n in range(20)]
        result = run(lambda question: "x" if question == "3" else 1 / 0, rows, app_concurrency=1)
        assert 19 == result.to_dict()["application"]["n_failed"]


class TestResume:
    """`traces=FILE`."""

    def interrupted(self, path: Path, asked: list[str], *, fails: bool = False) -> None:
        """A run that a bug in the caller's code ends after the second sample."""

        def stop(done: int, total: int) -> None:
            if done == 2:
                raise KeyboardInterrupt

        def ask(question: str) -> str:
            asked.append(question)
            if fails:
                raise ValueError("fails")
            return f"answer {len(asked)}"

        ask.__module__, ask.__qualname__ = "rag", "ask"
        with pytest.raises(KeyboardInterrupt):
            run(ask, traces=path, app_concurrency=1, concurrency=1, progress=stop)

    def resumed(
        self, path: Path, asked: list[str], rows: list[dict[str, Any]] | None = None, **options: Any
    ) -> Experiment:
        """The same application again."""

        def ask(question: str) -> str:
            asked.append(question)
            return f"answer {len(asked)}"

        ask.__module__, ask.__qualname__ = options.pop("name", "rag"), "ask"
        return run(ask, rows, traces=path, **options)

    def test_what_was_answered_is_not_asked_again(self, tmp_path: Path) -> None:
        """The file of the finished run has every call, and the next run begins again."""
        path, asked = tmp_path / "t.jsonl", []
        self.interrupted(path, asked)
        kept = len((tmp_path / "t.jsonl.partial").read_bytes().splitlines())
        assert kept >= 2
        assert not path.exists()
        result = self.resumed(path, asked)

        assert 3 == len(asked) == len(set(asked))
        assert ["answer 1", "answer 2", "answer 3"] == [trace.response for trace in result.traces]
        assert ["q0", "q1", "q2"] == [json.loads(line)["trace_id"] for line in path.read_text().splitlines()]
        assert [path.name] == [file.name for file in tmp_path.iterdir()]
        self.resumed(path, asked)
        assert 6 == len(asked)

    def test_a_changed_question_a_new_repeat_and_a_torn_line_are_asked(self, tmp_path: Path) -> None:
        """Only an answer to the same question counts."""
        path, asked = tmp_path / "t.jsonl", []
        self.interrupted(path, asked)
        partial = tmp_path / "t.jsonl.partial"
        partial.write_bytes(partial.read_bytes() + b'{"trace_id": "q')
        before = len(asked)
        changed = [{**ROWS[0], "question": "Who?"}, *ROWS[1:]]
        self.resumed(path, asked, changed, repeats=2, app_concurrency=1)

        known = before - 1
        assert 6 - known == len(asked) - before
        assert 2 == asked.count("Who?")

    def test_failures_are_asked_again(self, tmp_path: Path) -> None:
        """They are not answers."""
        path, asked = tmp_path / "t.jsonl", []
        self.interrupted(path, asked, fails=True)
        assert ["ok"] * 3 == [trace.status for trace in self.resumed(path, asked).traces]

    def test_answers_of_another_application_are_not_mixed_in(self, tmp_path: Path) -> None:
        """Nor deleted."""
        path, asked = tmp_path / "t.jsonl", []
        self.interrupted(path, asked)
        with pytest.raises(ConfigurationError, match=r"interrupted run of another application \(rag:ask\)"):
            self.resumed(path, asked, name="other")
        assert (tmp_path / "t.jsonl.partial").stat().st_size

    def test_two_runs_cannot_write_one_file(self, tmp_path: Path) -> None:
        """The second one says so."""
        path = tmp_path / "t.jsonl"
        caught: list[Exception] = []

        def ask(question: str) -> str:
            try:
                run(lambda _: "x", ROWS[:1], traces=path)
            except ConfigurationError as error:
                caught.append(error)
            return "x"

        run(ask, ROWS[:1], traces=path)
        assert "another process is writing" in str(caught[0])

    def test_the_path_is_checked_before_anything_is_asked(self, tmp_path: Path) -> None:
        """A directory, and a directory that does not exist."""
        for path in (tmp_path, tmp_path / "no" / "t.jsonl"):
            with pytest.raises(ConfigurationError, match=r"--traces .*(Give the path of a file|does not exist)"):
                run(lambda _: "x", traces=path)


@pytest.mark.parametrize(
    ("app", "options", "expected"),
    [
        (Application, {}, "got the class Application"),
        (3, {}, "got int"),
        (lambda: "x", {}, "does not take an argument"),
        (lambda _: "x", {"repeats": 0}, "repeats=0"),
        (lambda _: "x", {"app_concurrency": 0}, "app_concurrency=0"),
        (lambda _: "x", {"app_timeout_s": 0}, "app_timeout_s=0"),
    ],
)
def test_wrong_arguments_are_errors(app: object, options: dict[str, Any], expected: str) -> None:
    """Before anything is asked."""
    with pytest.raises(ConfigurationError, match=expected):
        run(app, **options)


def test_samples_without_a_question_are_errors_unless_the_app_takes_the_row() -> None:
    """An application that reads other fields needs none."""
    rows = [*ROWS, {"id": "no", "reference": "x"}]
    with pytest.raises(DataError, match="1 of 4 samples do not have a query to ask the application, first 'no'"):
        run(lambda _: "x", rows)
    assert 4 == len(run(lambda row: row.id, rows).traces)


def test_suppressed_capture_is_an_error() -> None:
    """Nothing could be captured."""
    with suppress_capture(), pytest.raises(ConfigurationError, match="outside of suppress_capture"):
        run(lambda _: "x")


def test_outcomes_and_progress_are_reported_for_each_call() -> None:
    """Failures too."""
    seen: list[tuple[int, int]] = []
    kinds: list[str] = []
    run(
        lambda question: 1 / 0 if "1" in question else "x",
        repeats=2,
        progress=lambda *counts: seen.append(counts),
        on_outcomes=lambda outcomes: kinds.append(outcomes[0].outcome),
    )
    assert [(n, 6) for n in range(7)] == seen
    assert (2, 4) == (kinds.count("failure"), kinds.count("score"))


class TestFrameworks:
    """Integrations are found by entry points."""

    def test_an_object_of_a_framework_without_its_integration_is_warned_about(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is evaluated with what it returns."""
        monkeypatch.setattr(capture, "entry_points", lambda group: ())
        framework = type(
            "Chain", (), {"__module__": "langchain_core.x", "invoke": lambda _, question: {"answer": question}}
        )

        assert "Where is stone 0?" == run(framework()).samples[0].response
        assert "pip install langchain-ragstone" in caplog.text

    def test_an_integration_that_cannot_be_imported_is_left_out(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The run does not need it."""
        broken = EntryPoint("llama_index", "a_module_that_is_missing:capture_into", "ragstone.capture")
        monkeypatch.setattr(capture, "entry_points", lambda group: (broken,))

        assert "x" == run(lambda _: "x").samples[0].response
        assert "requests of llama_index are not captured: No module named" in caplog.text


PLAIN = """
import json, sys
import ragstone
def late(question):
    IMPORT
    return "At the river."
ragstone.evaluate([{"id": "1", "question": "Where?", "ground_truth": "At the river."}], ["ccrs.ac"], app=late, judge="lexical")
named = {"llama_index.core", "llama_index.observability.ragstone", "langchain_core", "langchain_ragstone"}
print(json.dumps(sorted(named & set(sys.modules))))
"""


@pytest.mark.parametrize(
    ("statement", "imported"),
    [
        ("pass", []),
        ("import langchain_core.runnables", ["langchain_core", "langchain_ragstone"]),
        ("import llama_index.core", ["llama_index.core", "llama_index.observability.ragstone"]),
    ],
)
def test_only_frameworks_that_the_application_imports_are_imported(statement, imported, tmp_path):
    """A plain function is evaluated without LangChain and LlamaIndex. One that imports them when called is captured."""
    program = tmp_path / "program.py"
    program.write_text(PLAIN.replace("IMPORT", statement))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)

    assert imported == json.loads(done.stdout.splitlines()[-1])


def test_a_framework_that_appears_during_the_calls_is_named(monkeypatch, caplog):
    """Its requests were not captured, so that contexts may be missing."""

    def captured(_: object) -> Any:
        raise AssertionError("not used by this application")

    distribution = SimpleNamespace(name="langchain-ragstone")
    entry = SimpleNamespace(name="langchain", load=lambda: captured, dist=distribution)
    monkeypatch.setattr(capture, "entry_points", lambda **_: [entry])
    for name in ("langchain", "langchain_core", "langchain_classic", "langgraph"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def ask(question: str) -> str:
        monkeypatch.setitem(sys.modules, "langgraph", SimpleNamespace())
        return "At the river."

    monkeypatch.setattr(ask, "__module__", "somewhere.else")
    run(ask)

    assert "requests of langchain were not captured" in caplog.text
