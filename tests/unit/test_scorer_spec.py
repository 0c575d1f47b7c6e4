"""`ScorerSpec`: pickled, opened in another process, divided, and refused if it cannot be pickled."""

import ast
import asyncio
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragstone.errors import ConfigurationError
from ragstone.judges import Budget, OpenAICompatibleJudge
from ragstone.judges.lexical import LexicalJudge
from ragstone.metrics import MetricBase
from ragstone.schema import Passage, Sample, Score
from ragstone.worker import ScorerSpec, ScoringSetup

SAMPLE = Sample(
    id="1",
    query="Why is it green?",
    contexts=(Passage(text="Chlorophyll is green."),),
    response="Chlorophyll is green.",
)
URL = "http://127.0.0.1:9/v1"
ROOT = Path(__file__).parents[2]


class Length(MetricBase):
    name = "length"
    needs = ("response",)
    low, high = 0.0, 1000.0

    async def compute(self, sample: Sample, judge: object) -> Score:
        return self.make_score(sample, float(len(sample.response or "")), method="exact")


class LengthWithLock(Length):
    def __init__(self) -> None:
        self.lock = threading.Lock()


def values(setup: ScoringSetup) -> dict[str, float]:
    async def score() -> dict[str, float]:
        async with setup:
            return {o.metric: o.value for o in await setup.score(SAMPLE) if isinstance(o, Score)}

    return asyncio.run(score())


def open_and_score(pickled: bytes) -> dict[str, float]:
    spec: ScorerSpec = pickle.loads(pickled)  # noqa: S301
    return values(spec.open())


def test_a_spawned_process_opens_a_spec_and_computes_the_same_scores() -> None:
    """A spawned process opens a pickled spec and computes the same scores."""
    spec = ScorerSpec(("ccrs.qr", "rouge_l", Length()), judge="lexical", embedder={"url": "lexical"})
    # In the root of the repository, so that the new process can import this module.
    program = f"import pickle, sys; print(pickle.load(sys.stdin.buffer)({pickle.dumps(spec)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(open_and_score),
        capture_output=True,
        check=False,
        cwd=ROOT,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    scores = ast.literal_eval(done.stdout.decode())
    assert scores == values(spec.open())
    assert scores["length"] == len("Chlorophyll is green.")
    assert scores["ccrs.qr"] > 0


def test_a_copy_is_equal_except_for_its_budget() -> None:
    """A pickled copy is equal, and its budget has the same limits and counts from 0."""
    spec = ScorerSpec("ccrs", judge={"url": URL, "model": "m", "headers": {"x": {"env": "KEY"}}}, deadline_s=7)
    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301
    with_budget = ScorerSpec("ccrs", judge=URL, budget=Budget(calls=3, tokens=70))
    with_budget.budget.begin()  # type: ignore[union-attr]
    copy = pickle.loads(pickle.dumps(with_budget))  # noqa: S301
    assert repr(copy.budget) == "Budget(calls=3, tokens=70)"
    assert copy.budget.spent.calls == 0


def test_a_spec_keeps_the_models_that_the_environment_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spec keeps the judge that the environment named when it was created."""
    monkeypatch.setenv("RAGSTONE_JUDGE", URL)
    spec = ScorerSpec("ccrs")
    monkeypatch.setenv("RAGSTONE_JUDGE", "lexical")
    assert not spec.open().judge.identity.is_baseline


def test_a_spec_does_not_read_keys_before_it_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is read when the spec is opened, and is not part of the spec."""
    spec = ScorerSpec("ccrs", judge={"url": URL, "model": "m", "api_key_env": "SOME_KEY"})
    with pytest.raises(ConfigurationError, match="SOME_KEY that is not set"):
        spec.open()
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")
    assert spec.open().judge.identity.name
    assert b"sk-very-secret" not in pickle.dumps(spec)


def test_a_reader_is_built_from_a_table_and_shares_the_endpoint_of_the_judge() -> None:
    """A reader's table without a URL is another model at the judge's endpoint."""
    setup = ScorerSpec("udcg", judge={"url": URL, "model": "a"}, reader={"model": "b"}).open()
    assert setup.reader is not None
    assert setup.reader.identity.name.startswith("b")
    assert ScorerSpec("udcg", judge={"url": URL, "model": "a"}).open().reader is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"judge": OpenAICompatibleJudge(URL, model="m")}, r"judge: .* cannot be sent .* judge='http://host:8000/v1'"),
        (
            {"metrics": (Length(), LengthWithLock())},
            r"metrics: <length> cannot be sent .* top level of a module",
        ),
        ({"judge": {"url": URL, "modle": "m"}}, r"ScorerSpec\(judge=\.\.\.\).*Did you mean 'model'"),
    ],
)
def test_a_spec_that_cannot_be_used_elsewhere_is_refused(arguments: dict[str, object], message: str) -> None:
    """A value that cannot be pickled and an invalid table are errors, with the way out."""
    with pytest.raises(ConfigurationError, match=message) as error:
        ScorerSpec(**arguments)  # type: ignore[arg-type]
    assert "sk-1" not in str(error.value)


def test_the_text_of_a_spec_does_not_show_credentials() -> None:
    """The representation of a spec does not contain credentials."""
    assert "secret" not in repr(ScorerSpec("ccrs", judge="http://user:secret@127.0.0.1:9/v1"))


def limits(specs: Sequence[ScorerSpec], role: str = "judge") -> list[object]:
    keys = ("max_concurrent_requests", "requests_per_minute", "tokens_per_minute")
    return [tuple(getattr(spec, role).connection.get(key) for key in keys) for spec in specs]


def test_limits_are_divided_among_processes() -> None:
    """Concurrency and rates are divided among the processes, and their sums stay the same."""
    table = {"url": URL, "max_concurrent_requests": 10, "requests_per_minute": 90, "tokens_per_minute": 300}
    parts = ScorerSpec("ccrs", judge=table, reader=URL, concurrency=64).split(3)
    assert limits(parts) == [(4, 30, 100), (3, 30, 100), (3, 30, 100)]
    assert [row[0] for row in limits(parts, "reader")] == [6, 5, 5]  # type: ignore[index]
    assert [spec.concurrency for spec in parts] == [21] * 3
    assert ScorerSpec("ccrs", judge=LexicalJudge(), concurrency=1).split(2)[0].concurrency == 1


def test_more_processes_than_requests_in_flight_are_refused() -> None:
    """More processes than requests in flight are an error."""
    with pytest.raises(ConfigurationError, match=r"max_concurrent_requests.*3 .*among 4 processes.*higher limit"):
        ScorerSpec("ccrs", judge={"url": URL, "max_concurrent_requests": 3}).split(4)
