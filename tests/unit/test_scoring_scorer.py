"""The scorer: one outcome a pair whatever happens, together, by the deadline, under the limit, and cancellable."""

from __future__ import annotations

import asyncio

import pytest

from builders import make_sample
from fake_servers import FakeJudgeServer
from ragstone.capture import capture_suppressed
from ragstone.errors import ConfigurationError, JudgeError, JudgeReplyError, JudgeUnavailableError
from ragstone.judges import NumberReply, OpenAICompatibleJudge, Preparable, progress_at, record_usage
from ragstone.judges._model import model_call
from ragstone.judges.lexical import LexicalJudge
from ragstone.metrics import Composite, MetricBase, MetricCard, all_metrics
from ragstone.metrics.ccrs import CCRS, InformationDensity
from ragstone.schema import Failure, Interval, NotApplicable, Passage, Score, Trace, Usage, fingerprint
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge

pytestmark = pytest.mark.usefixtures("virtual_time")


class Metric:
    """A metric whose `score` is what the test says."""

    def __init__(self, score, *, name="test.metric", judge_calls=0, **card):
        self._score = score
        self.card = MetricCard(
            name=name,
            title="t",
            description="d",
            low=0,
            high=1,
            version="7",
            source="s",
            group="test",
            judge_calls=judge_calls,
            **{"needs": ("response",)} | card,
        )

    async def score(self, sample, judge):
        return await self._score(sample, judge)


class Words(MetricBase):
    """A metric on the public base class."""

    name, title, group = "test.words", "Words", "test"
    description, formula, source, advice = "d", "f", "s", "a"
    needs = ("response",)
    high = float("inf")

    async def compute(self, sample, judge):
        return self.make_score(sample, len(sample.response.split()), method="exact")


def constant(value):
    async def score(sample, judge):
        return Score.model_construct(sample_id="?", metric="?", metric_version="?", value=value, method="exact")

    return score


def raising(error):
    async def score(sample, judge):
        raise error

    return score


async def forever(sample, judge):
    await asyncio.Event().wait()


def score(metrics, judge=None, sample=None, **options):
    return asyncio.run(Scorer(metrics, judge or FakeJudge(), **options).score(sample or make_sample()))


async def collect(scorer, samples):
    return [pair async for pair in scorer.score_many(samples)]


def test_outcomes_come_in_the_order_of_metrics_and_are_filled_in():
    """Ids, version, judge and times are the scorer's business."""
    metrics = [*CCRS, Metric(constant(0.5))]
    outcomes = score(metrics, sample=make_sample("s-9"), clock=lambda: 123.0)
    assert [metric.card.name for metric in metrics] == [outcome.metric for outcome in outcomes]
    assert {("s-9", 123.0)} == {(outcome.sample_id, outcome.created_at) for outcome in outcomes}
    judged, plain = outcomes[0], outcomes[-1]
    assert ("fake judge", FakeJudge().identity.hash) == (judged.judge, judged.judge_hash)
    assert (None, "", "7", None) == (plain.judge, plain.judge_hash, plain.metric_version, plain.usage)
    assert all(outcome.duration_s >= 0 for outcome in outcomes)
    assert all(type(outcome).model_validate(outcome.model_dump()) == outcome for outcome in outcomes)


@pytest.mark.parametrize(
    ("error", "kind", "words", "raw"),
    [
        (JudgeReplyError("several", raw="7 or 8"), "unparseable", "several", "7 or 8"),
        (JudgeReplyError("cut", kind="truncated", raw="7"), "truncated", "cut", "7"),
        (JudgeUnavailableError("silence", kind="timeout"), "timeout", "silence", None),
        (JudgeUnavailableError("odd", kind="cosmic_rays"), "unavailable", "odd", None),
        (ConfigurationError("no such model"), "rejected", "no such model", None),
        (asyncio.CancelledError("its own"), "bug", "a future inside the metric was canceled", None),
        (TimeoutError("its own"), "bug", "TimeoutError: its own", None),
        (ZeroDivisionError("0/0"), "bug", "ZeroDivisionError: 0/0", None),
    ],
)
def test_errors_become_failures(error, kind, words, raw):
    """Of that metric alone; the others are scored."""
    failed, scored = score([Metric(raising(error)), Metric(constant(1), name="test.other")])
    assert isinstance(failed, Failure)
    assert (kind, words, raw) == (failed.kind, failed.reason, failed.raw)
    assert 1 == scored.value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.01, -0.01])
def test_values_that_break_the_promise_are_bugs(value):
    """NaN, infinity and values outside the card's range get nowhere."""
    (outcome,) = score([Metric(constant(value))])
    assert ("failure", "bug") == (outcome.outcome, outcome.kind)


@pytest.mark.parametrize(("low", "high"), [(0.2, 1.01), (-0.01, 0.8), (0, 100)])
def test_an_interval_outside_the_range_is_a_bug(low, high):
    """A metric that forgets to scale the interval of a reply fails, and the reason says what to do."""

    class Shares(Words):
        high = 1.0

        async def compute(self, sample, judge):
            interval = Interval(low=low, high=high, method="t")
            return self.make_score(sample, 0.5, method="sampled", interval=interval)

    (outcome,) = score([Shares()])
    assert ("failure", "bug") == (outcome.outcome, outcome.kind)
    assert f"the interval {float(low)} to {float(high)} is outside 0 to 1. Scale the bounds" in outcome.reason


def test_rounding_is_no_bug():
    """1 + 2e-16 is 1."""
    assert 1 + 2e-16 == score([Metric(constant(1 + 2e-16))])[0].value


def test_a_metric_returns_an_outcome():
    """A bare number is a bug of the metric."""

    async def number(sample, judge):
        return 0.5

    assert "bug" == score([Metric(number)])[0].kind


@pytest.mark.parametrize("fields", [{"details": {"what": object()}}, {"explanation": "half of \ud800"}])
def test_an_outcome_can_be_stored(fields):
    """Details or texts that JSON cannot express are a bug of the metric here, and not an error of the store later."""

    async def odd(sample, judge):
        return Score(sample_id="?", metric="?", metric_version="?", value=0.5, method="exact", **fields)

    assert "bug" == score([Metric(odd)])[0].kind


def test_a_failure_can_be_stored():
    """Whatever text an error quotes."""
    (failure,) = score([Metric(raising(ValueError("odd: \ud800")))])
    assert "ValueError: odd: \ufffd" == failure.reason
    assert failure.model_dump_json()


def test_bugs_are_logged_with_their_traceback_once(caplog):
    """The log says where, and does not fill up."""
    scorer = Scorer([Metric(raising(ZeroDivisionError("0/0")))], FakeJudge())
    asyncio.run(collect(scorer, [make_sample(f"s{n}") for n in range(3)]))
    records = [record for record in caplog.records if record.name == "ragstone"]
    assert [True, False, False] == [bool(record.exc_info) for record in records]


def test_deadline():
    """What has no outcome by then is a time-out; what has one keeps it."""
    late, done = score([Metric(forever), Metric(constant(1), name="test.other")], deadline_s=0.05)
    assert ("timeout", "no outcome within 0.05 s") == (late.kind, late.reason)
    assert 1 == done.value


def test_deadline_of_a_slow_endpoint():
    """The failure says how far it came, and what to change."""

    async def slow(sample, judge):
        record_usage(Usage(calls=7))
        await forever(sample, judge)

    (late,) = score([Metric(slow)], deadline_s=0.05)
    assert late.reason.startswith("no outcome within 0.05 s (7 calls sent). Set a longer deadline (limits.deadline_s, ")


def test_without_a_deadline_a_metric_that_hangs_ends(virtual_time):
    """It fails two minutes after the last outcome, and what arrives until then is kept."""

    async def slow(sample, judge):
        await asyncio.sleep(100)
        return await constant(1)(sample, judge)

    before = virtual_time.time()
    late, done = score([Metric(forever), Metric(slow, name="test.other")])
    assert ("timeout", "no outcome within 120 s after the last reply of a model") == (late.kind, late.reason)
    assert 1 == done.value
    assert 220 == round(virtual_time.time() - before)


def test_a_call_of_a_stopped_event_loop_is_not_progress(virtual_time):
    """A sample does not wait for the call, which may never end, because its thread may have ended."""
    stopped = asyncio.new_event_loop()

    async def call():
        with model_call():
            await asyncio.Event().wait()

    async def silence_s():
        await asyncio.sleep(5)
        return asyncio.get_running_loop().time() - progress_at()

    task = stopped.create_task(call())
    stopped.run_until_complete(asyncio.sleep(1))
    assert asyncio.run(silence_s()) >= 5
    task.cancel()
    stopped.run_until_complete(asyncio.wait([task]))
    stopped.close()


def test_without_a_deadline_a_slow_judge_loses_no_outcome(virtual_time):
    """A judge of the user's own that answers one question at a time, each in a minute, is waited for."""
    turn = asyncio.Lock()

    async def ask(sample, judge):
        async with turn:
            await asyncio.sleep(60)
        return await constant(1)(sample, judge)

    outcomes = score([Metric(ask, name=f"test.{n}") for n in range(8)])
    assert [1] * 8 == [outcome.value for outcome in outcomes]


def test_metrics_of_one_sample_run_together():
    """Each waits for all others to have started."""
    barrier = asyncio.Barrier(3)

    async def meet(sample, judge):
        await barrier.wait()
        return await constant(1)(sample, judge)

    outcomes = score([Metric(meet, name=f"test.{n}") for n in range(3)], deadline_s=5)
    assert [1, 1, 1] == [outcome.value for outcome in outcomes]


def test_metrics_that_only_compute_wait_for_nothing():
    """One that waited would have neither a deadline nor the others beside it. The outcomes are those of tasks."""
    metrics = [metric for metric in all_metrics() if not isinstance(metric, Preparable | Composite)]
    sample = make_sample(sub_questions=["How tall is it?", "How old is it?"])

    class Other(LexicalJudge):
        """A judge that can do anything."""

    waits = []

    async def compute():
        loop = asyncio.get_running_loop()
        loop.call_at = loop.run_in_executor = lambda *args, **options: waits.append(args)
        return await Scorer(metrics, LexicalJudge(), clock=lambda: 0.0, deadline_s=5).score(sample)

    def described(outcomes):
        return [outcome.model_copy(update={"duration_s": 0.0}) for outcome in outcomes]

    computed = asyncio.run(compute())
    assert not waits
    assert len(metrics) == len(computed) > 50
    assert described(computed) == described(score(metrics, Other(), sample, clock=lambda: 0.0))
    assert 30 < sum(isinstance(outcome, Score) for outcome in computed)


def test_everything_runs_suppressed():
    """A judge that is itself a traced application is not captured; the caller's own code is."""
    seen = []

    async def look(sample, judge):
        seen.append((capture_suppressed(), await asyncio.to_thread(capture_suppressed)))
        return await constant(1)(sample, judge)

    async def session():
        await Scorer([Metric(look)], FakeJudge()).score(make_sample())
        seen.append(capture_suppressed())

    asyncio.run(session())
    assert [(True, True), False] == seen


def test_usage_counts_failures_and_time_outs_too():
    """Work that was paid for is on the bill, whatever became of it; plain metrics have none."""
    judge = FakeJudge(fail=lambda prompt: JudgeReplyError("no") if prompt.construct == "question_relevance" else None)
    slow = FakeJudge(latency_s=5)
    scorer = Scorer(CCRS, judge)
    outcomes = asyncio.run(scorer.score(make_sample()))
    assert [1] * 5 == [outcome.usage.calls for outcome in outcomes]
    assert 5 == scorer.usage.calls
    assert scorer.usage.input_tokens == sum(outcome.usage.input_tokens for outcome in outcomes)
    timed_out = Scorer(CCRS, slow, deadline_s=0.05)
    assert {"timeout"} == {outcome.kind for outcome in asyncio.run(timed_out.score(make_sample()))}
    assert 5 == timed_out.usage.calls


def test_usage_of_a_judge_without_meter():
    """A judge from elsewhere may put its bill on the reply alone."""

    class Elsewhere(FakeJudge):
        async def ask_number(self, prompt, *, low=0, high=100):
            return NumberReply(value=50, raw="50", method="single_reply", usage=Usage(calls=2, output_tokens=9))

    scorer = Scorer(CCRS[:1], Elsewhere())
    (outcome,) = asyncio.run(scorer.score(make_sample()))
    assert Usage(calls=2, output_tokens=9) == outcome.usage == scorer.usage


def test_not_applicable():
    """One outcome a metric, keyed as a score would be."""
    scorer = Scorer([*CCRS, Metric(constant(1))], FakeJudge())
    outcomes = scorer.not_applicable(
        Trace(trace_id="t-1", source="x", started_at=0.0, query="Why?"), "the request ended in an error"
    )
    scores = asyncio.run(scorer.score(make_sample("t-1")))
    assert [outcome.key for outcome in scores] == [outcome.key for outcome in outcomes]
    assert {NotApplicable} == set(map(type, outcomes))
    assert {fingerprint("Why?")} == {outcome.fingerprint for outcome in outcomes}


@pytest.mark.parametrize(
    ("needs", "fields", "missing"),
    [
        (("query",), {"query": " "}, ("query",)),
        (("response", "reference"), {"response": None, "reference": ("",)}, ("response", "reference")),
        (("contexts", "qrels"), {}, ("qrels",)),
        (("contexts",), {"contexts": (Passage(text="", id="a"),)}, ()),
    ],
)
def test_a_metric_is_not_called_without_what_it_needs(needs, fields, missing):
    """A user's own metric, too, is not applicable if a field is missing, and the judge is not prepared for it."""
    called = []

    async def record(sample, judge):
        called.append(sample)

    sample = make_sample().model_copy(update=fields)
    (outcome,) = score([Metric(record, judge_calls=1, needs=needs)], sample=sample)
    assert isinstance(outcome, NotApplicable)
    assert missing == outcome.missing
    assert all(name in outcome.reason for name in missing)
    assert [] == called


def test_a_metric_that_reads_ids_needs_no_texts():
    """The card says that the ids of passages are enough."""
    sample = make_sample().model_copy(update={"contexts": (Passage(text="", id="a"),)})
    metric = Metric(constant(1), needs=("contexts",), reads_passages=False)
    (outcome,) = score([metric], sample=sample)
    assert isinstance(outcome, Score)


def test_a_metric_on_the_base_class():
    """It computes from what is there; without a scorer a missing field does not become a value either."""
    metric, empty = Words(), make_sample().model_copy(update={"response": None})
    (outcome,) = score([metric], sample=make_sample(response="It is tall."))
    assert (3, "test.words", "exact") == (outcome.value, outcome.metric, outcome.method)
    for outcome in (*score([metric], sample=empty), asyncio.run(metric.score(empty, FakeJudge()))):
        assert isinstance(outcome, NotApplicable)
        assert ("response",) == outcome.missing


# Many samples -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [True, False])
def test_many_samples(asynchronous):
    """Each sample once, from any kind of source."""
    samples = [make_sample(f"s{n}") for n in range(50)]

    async def source():
        for sample in samples:
            await asyncio.sleep(0)
            yield sample

    async def session():
        return await collect(Scorer(CCRS, FakeJudge(), concurrency=4), source() if asynchronous else samples)

    pairs = asyncio.run(session())
    assert sorted(sample.id for sample in samples) == sorted(sample.id for sample, _ in pairs)
    assert all({sample.id} == {outcome.sample_id for outcome in outcomes} for sample, outcomes in pairs)


def test_no_samples():
    """Nothing in, nothing out."""
    assert [] == asyncio.run(collect(Scorer(CCRS, FakeJudge()), []))


def test_bounded_and_in_order_of_completion():
    """Never more in work than `concurrency`, the source not read ahead, the slow one last."""
    started, done, peak, ahead = 0, 0, 0, 0

    async def count(sample, judge):
        nonlocal started, done, peak
        started += 1
        peak = max(peak, started - done)
        await asyncio.sleep(0.2 if sample.id == "s0" else 0.001)
        done += 1
        return await constant(1)(sample, judge)

    def source():
        nonlocal ahead
        for n in range(20):
            ahead = max(ahead, n - done)
            yield make_sample(f"s{n}")

    pairs = asyncio.run(collect(Scorer([Metric(count)], FakeJudge(), concurrency=3), source()))
    assert (3, 2) == (peak, ahead)
    assert "s0" == pairs[-1][0].id


def test_results_do_not_wait_for_the_next_sample():
    """A live source that is silent holds nothing back."""

    async def session():
        async def source():
            yield make_sample("first")
            await asyncio.Event().wait()

        many = Scorer([Metric(constant(1))], FakeJudge()).score_many(source())
        async with asyncio.timeout(5):
            sample, _ = await anext(many)
        await many.aclose()
        return sample.id

    assert "first" == asyncio.run(session())


def test_errors_of_the_source_come_through():
    """They are no outcome of any sample."""

    def source():
        yield make_sample("s0")
        raise LookupError("row 2")

    with pytest.raises(LookupError, match="row 2"):
        asyncio.run(collect(Scorer(CCRS, FakeJudge()), source()))


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_leaving_early_leaves_no_task(how):
    """Cancellation and closing stop what is in work, and wait until it has stopped."""
    stopped = []

    async def linger(sample, judge):
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(sample.id)

    def metrics():
        async def first_is_quick(sample, judge):
            return await (constant(1) if sample.id == "s0" else linger)(sample, judge)

        return [Metric(first_is_quick)]

    async def session():
        many = Scorer(metrics(), FakeJudge(), concurrency=4).score_many(make_sample(f"s{n}") for n in range(10))
        await anext(many)
        if how == "close":
            await asyncio.sleep(0.01)
            await many.aclose()
        else:
            waiting = asyncio.create_task(anext(many))
            await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert set() == asyncio.run(session())
    assert stopped


def test_cancelling_one_sample():
    """A canceled `score` raises, and its metrics have stopped."""

    async def session():
        task = asyncio.create_task(Scorer([Metric(forever)], FakeJudge()).score(make_sample()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert set() == asyncio.run(session())


# The judge --------------------------------------------------------------------------------------------------------


def test_prepare_shows_a_wrong_judge_early():
    """Before the first sample; without it every sample says so."""
    with FakeJudgeServer(models=("a", "b")) as server:
        scorer = Scorer(CCRS, OpenAICompatibleJudge(server.url))

        async def session():
            with pytest.raises(ConfigurationError, match="a, b"):
                await scorer.prepare()
            outcomes = await scorer.score(make_sample())
            await scorer.judge.aclose()
            return outcomes

        assert {"rejected"} == {outcome.kind for outcome in asyncio.run(session())}


def test_prepare_goes_on_when_the_spend_cap_is_reached():
    """The outcomes that the cap prevents say so. Other errors of the judge end the preparation."""

    class Judge(FakeJudge):
        def __init__(self, kind):
            super().__init__()
            self.kind = kind

        async def prepare(self):
            raise JudgeError("no answer", kind=self.kind)

    asyncio.run(Scorer(CCRS, Judge("budget")).prepare())
    with pytest.raises(JudgeError, match="no answer"):
        asyncio.run(Scorer(CCRS, Judge("unavailable")).prepare())


def test_judge_is_known_by_its_final_name():
    """The model is found before anything is recorded under the judge's hash."""
    with FakeJudgeServer() as server:
        judge = OpenAICompatibleJudge(server.url)

        async def session():
            try:
                return await Scorer(CCRS, judge).score(make_sample(response=""))
            finally:
                await judge.aclose()

        outcomes = asyncio.run(session())
        assert {judge.identity.hash} == {outcome.judge_hash for outcome in outcomes}
        assert OpenAICompatibleJudge(server.url, model="fake-judge").identity == judge.identity


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"deadline_s": 0}])
def test_impossible_settings(options):
    """Refused at once."""
    with pytest.raises(ConfigurationError):
        Scorer(CCRS, FakeJudge(), **options)


def test_two_metrics_of_one_name():
    """Their outcomes could not be told apart."""
    with pytest.raises(ConfigurationError, match=r"ccrs\.cc"):
        Scorer([CCRS[0], CCRS[0]], FakeJudge())


def test_a_metric_is_checked_once():
    """The scorer has checked the sample, so the base class does not check it again."""
    checked = []

    class Counting(MetricBase):
        """Count the checks."""

        name, needs = "acme.counting", ("response",)

        def check_sample(self, sample):
            checked.append(sample.id)
            return super().check_sample(sample)

        async def compute(self, sample, judge):
            return self.make_score(sample, 1.0, method="exact")

    (outcome,) = score([Counting()], sample=make_sample(id="a"))
    assert (["a"], 1.0) == (checked, outcome.value)


def test_a_metric_with_its_own_score_is_called():
    """A metric may replace `score`, in its class or on the object."""

    class Own(MetricBase):
        """Replace `score`."""

        name, needs = "acme.own", ("response",)

        async def score(self, sample, judge):
            return self.make_score(sample, 0.75, method="exact")

        async def compute(self, sample, judge):
            raise AssertionError("not reached")

    changed = InformationDensity()
    changed.score = Own().score
    assert [0.75, 0.75] == [outcome.value for outcome in score([Own(), changed], sample=make_sample(query="Why?"))]


def test_metrics_of_a_sample_run_beside_each_other():
    """Each may wait for something else, also with a judge that answers at once."""
    order = []

    class Waiting(InformationDensity):
        """A metric that waits."""

        name = "acme.waiting"

        async def compute(self, sample, judge):
            order.append(f"{self.name} begins")
            await asyncio.sleep(0)
            order.append(f"{self.name} ends")
            return self.make_score(sample, 1.0, method="exact")

    class Other(Waiting):
        """Another."""

        name = "acme.other"

    score([Waiting(), Other()], judge=LexicalJudge(), sample=make_sample(query="Why?"))
    assert ["acme.waiting begins", "acme.other begins", "acme.waiting ends", "acme.other ends"] == order
