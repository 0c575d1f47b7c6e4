"""`PrometheusSink`: what is counted, under which labels, and in whose registry."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap

import prometheus_client
import pytest
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ragstone.errors import ConfigurationError, SinkUnavailableError
from ragstone.schema import DeliveryCounts, Failure, IgnoredTraces, Ledger, LedgerRow, NotApplicable, Score, Usage
from ragstone.sinks import Delivery, PrometheusSink, Sink, StatusSink, sink_from


def score(trace_id="t", value=0.5, metric="exact_match", *, app="app", **fields):
    """A delivery of a score."""
    of_delivery = {key: fields.pop(key) for key in ("otel_trace_id", "otel_sampled") if key in fields}
    outcome = Score(sample_id=trace_id, metric=metric, metric_version="1", value=value, method="exact", **fields)
    return Delivery(outcome=outcome, trace_id=trace_id, app=app, **of_delivery)


class Registry(prometheus_client.CollectorRegistry):
    """A registry that is easy to ask."""

    def value(self, name, **labels):
        """The value of a sample, None when there is none."""
        return self.get_sample_value(name, labels)


@pytest.fixture
def registry():
    """The application's registry."""
    return Registry()


@pytest.fixture
def sink(registry):
    """A sink that adds to it."""
    made = PrometheusSink(registry)
    yield made
    asyncio.run(made.aclose())


def write(sink, *deliveries):
    """Deliver."""
    asyncio.run(sink.write(deliveries))


def page(registry, accept="application/openmetrics-text"):
    """What a scraper reads."""
    encode, _ = choose_encoder(accept)
    return encode(registry).decode()


class TestCounting:
    """Outcomes become samples."""

    def test_it_is_a_sink_that_watches(self, sink):
        """The worker shows it the ledger."""
        assert isinstance(sink, Sink)
        assert isinstance(sink, StatusSink)

    def test_scores_fill_buckets(self, sink, registry):
        """Tenths up to one; a value on a bound is in the bucket that it bounds; sum and count are exact."""
        write(sink, *(score(f"t{i}", value) for i, value in enumerate([0.0, 0.1, 0.11, 1.0])))

        labels = {"metric": "exact_match", "app": "app"}
        buckets = {le: registry.value("ragstone_score_bucket", le=le, **labels) for le in ("0.1", "0.2", "0.9", "1.0")}
        assert {"0.1": 2, "0.2": 3, "0.9": 3, "1.0": 4} == buckets
        assert (4, 1.21) == (
            registry.value("ragstone_score_count", **labels), registry.value("ragstone_score_sum", **labels),
        )  # fmt: skip

    def test_values_beyond_one_count_in_full(self, sink, registry):
        """Information density has no upper end: the mean stays right, the quantile says "more"."""
        write(sink, score(value=7.5, metric="crux.density"))

        labels = {"metric": "crux.density", "app": "app"}
        assert 0 == registry.value("ragstone_score_bucket", le="1.0", **labels)
        assert 7.5 == registry.value("ragstone_score_sum", **labels)

    def test_buckets_can_be_others(self, registry):
        """For metrics of another range."""
        sink = PrometheusSink(registry, buckets=[1, 10])
        write(sink, score(value=7.5))

        assert 1 == registry.value("ragstone_score_bucket", le="10.0", metric="exact_match", app="app")

    def test_every_outcome_is_counted_by_kind(self, sink, registry):
        """What failed is no low score, and is seen."""
        failure = Failure(sample_id="f", metric="exact_match", metric_version="1", kind="timeout", reason="slow")
        nothing = NotApplicable(sample_id="n", metric="exact_match", metric_version="1", reason="no reference")
        others = [Delivery(outcome=outcome, trace_id="x", app="app") for outcome in (failure, nothing)]
        write(sink, score(), *others)

        kinds = ("score", "failure", "not_applicable")
        assert [1, 1, 1] == [
            registry.value("ragstone_outcomes_total", metric="exact_match", app="app", outcome=kind) for kind in kinds
        ]
        assert 1 == registry.value("ragstone_score_count", metric="exact_match", app="app")

    def test_a_repeat_is_not_counted(self, sink, registry):
        """Within a batch, and in another one."""
        write(sink, score(), score())
        write(sink, score(value=0.9), score("u"))

        assert 2 == registry.value("ragstone_score_count", metric="exact_match", app="app")

    def test_judges_cost_time_and_tokens(self, sink, registry):
        """By metric and outcome, by model and direction."""
        usage = Usage(input_tokens=300, output_tokens=20)
        write(sink, score(judge="llama", duration_s=0.3, usage=usage), score("u", judge="llama", usage=usage))

        assert 600 == registry.value("ragstone_judge_tokens_total", model="llama", direction="input")
        assert 40 == registry.value("ragstone_judge_tokens_total", model="llama", direction="output")
        labels = {"metric": "exact_match", "outcome": "score"}
        assert 1 == registry.value("ragstone_judge_duration_seconds_bucket", le="0.5", **labels)
        assert 1 == registry.value("ragstone_judge_duration_seconds_count", **labels)

    @pytest.mark.parametrize(
        ("metric", "direction"), [("exact_match", "higher"), ("ragchecker.hallucination", "lower"), ("mine", "unknown")]
    )
    def test_rules_can_know_which_way_is_better(self, sink, registry, metric, direction):
        """Low hallucination is no alarm."""
        write(sink, score(metric=metric, judge="j"))

        labels = {"metric": metric, "version": "1", "judge": "j", "direction": direction}
        assert 1 == registry.value("ragstone_metric_info", **labels)


class TestLabels:
    """Names come from requests: there may be any number of them, with anything in them."""

    def test_apps_are_bounded(self, registry):
        """A name that holds a user id must not grow the memory of every Prometheus."""
        sink = PrometheusSink(registry, max_apps=3)
        write(sink, *(score(f"t{i}", app=f"app{i}") for i in range(50)), score("again", app="app0"))

        apps = {
            s.labels["app"]: s.value for f in registry.collect() for s in f.samples if s.name == "ragstone_score_count"
        }
        assert {"app0": 2, "app1": 1, "app2": 1, "other": 47} == apps

    def test_operations_are_a_label_on_request(self, registry):
        """The name of a trace is no application: it is a label only if that is asked for, and bounded too."""
        sink = PrometheusSink(registry, max_apps=2, operations=True)
        outcomes = [score(f"t{i}").outcome for i in range(4)]
        write(sink, *(Delivery(outcome=o, trace_id=f"t{i}", name=f"op{i}", app="a") for i, o in enumerate(outcomes)))

        for name in ("ragstone_score_count", "ragstone_outcomes_total"):
            labels = [s.labels for f in registry.collect() for s in f.samples if s.name == name]
            assert [("a", "op0"), ("a", "op1"), ("a", "other")] == sorted((x["app"], x["operation"]) for x in labels)

    def test_metrics_and_models_are_bounded(self, sink, registry):
        """Both could be made up by a program."""
        write(sink, *(score(f"t{i}", metric=f"m{i}", judge=f"j{i}", usage=Usage(calls=1)) for i in range(300)))

        samples = [sample for family in registry.collect() for sample in family.samples]
        assert 201 == len({s.labels["metric"] for s in samples if s.name == "ragstone_score_count"})
        assert 21 == len({s.labels["model"] for s in samples if s.name == "ragstone_judge_tokens_total"})
        assert 200 == len([s for s in samples if s.name == "ragstone_metric_info"])

    def test_hostile_names_leave_the_page_readable(self, sink, registry):
        """Quotes, newlines, half characters, endless ones: a parser reads all of it back."""
        names = ['"} 1\nevil_total 1', "a\\", "\udc80\0\x1b[31m", "x" * 10_000, "ő\u202e"]
        write(sink, *(score(f"t{i}\n" + "y" * 500 * i, app=name) for i, name in enumerate(names)))
        text, plain = page(registry), page(registry, accept="text/plain")

        for families in (text_string_to_metric_families(text), parse_text(plain)):
            found = {s.labels["app"] for f in families for s in f.samples if s.name == "ragstone_score_count"}
            (cut,) = (name for name in found if name.startswith("x" * 91))
            assert {'"} 1 evil_total 1', "a\\", "   [31m", cut, "ő "} == found
            assert 100 == len(cut)


class TestExemplars:
    """From a bucket to a trace."""

    @pytest.mark.parametrize(
        ("ids", "exemplar"),
        [
            ({"otel_trace_id": "ab" * 16, "otel_sampled": True}, {"trace_id": "ab" * 16}),
            ({"otel_trace_id": "ab" * 16}, {"trace_id": "ab" * 16}),
            ({"otel_trace_id": "ab" * 16, "otel_sampled": False}, {"ragstone_trace_id": "t"}),
            ({}, {"ragstone_trace_id": "t"}),
        ],
    )
    def test_an_exemplar_names_a_trace_that_exists(self, sink, registry, ids, exemplar):
        """The tracing tool's id where that tool has the trace, ours where it does not."""
        write(sink, score(value=0.25, **ids))

        (found,) = [s.exemplar for f in registry.collect() for s in f.samples if s.exemplar is not None]
        assert (exemplar, 0.25) == (found.labels, found.value)

    def test_an_id_that_is_too_long_makes_no_exemplar(self, sink, registry):
        """OpenMetrics has a limit, and the score counts all the same."""
        write(sink, score("t" * 200), score("a\nb"))

        assert [] == [s for f in registry.collect() for s in f.samples if s.exemplar is not None]
        assert 2 == registry.value("ragstone_score_count", metric="exact_match", app="app")


class TestBooks:
    """The ledger of the store, as it stands."""

    LEDGER = Ledger(
        total=LedgerRow(captured=20, scored=4, sampled_out=3, not_applicable=1, failed=2, dropped=5, pending=5),
        oldest_pending_s=30.0,
        outbox={
            "jsonl:/x": DeliveryCounts(pending=2, sent=7, skipped=3, failed=1, oldest_pending_s=60.0),
            "otlp:h": DeliveryCounts(sent=1, stopped="401"),
        },
        ignored={"not a request: only embeddings": IgnoredTraces(n=7, example="trace 1")},
    )

    def test_the_books_are_the_store_s(self, sink, registry):
        """Totals of all times, not of this process."""
        sink.update_status(self.LEDGER)

        def value(name, **labels):
            return registry.value(f"ragstone_{name}", **labels)

        outcomes = ("queued", "sampled_out", "dropped", "scored", "not_applicable", "failed")
        assert [12, 3, 5, 4, 1, 2] == [value("captures_total", outcome=outcome) for outcome in outcomes]
        assert 5 == value("queue_depth")
        assert 7 == value("ignored_traces_total", reason="not a request: only embeddings")
        x = {"sink": "jsonl:/x"}
        assert [7, 3, 1] == [value("sink_deliveries_total", outcome=o, **x) for o in ("sent", "skipped", "failed")]
        assert [2, 1] == [value("deliveries_depth", state=state, **x) for state in ("pending", "failed")]
        assert [0, 1] == [value("sink_stopped", sink=sink) for sink in ("jsonl:/x", "otlp:h")]
        assert 0 == value("deliveries_oldest_seconds", sink="otlp:h")

    def test_deliveries_of_erased_requests_stay_in_the_counter(self, sink, registry):
        """A counter that decreases looks like a restart of the process."""
        erased = self.LEDGER.model_copy(
            update={
                "outbox": {"jsonl:/x": DeliveryCounts(pending=2, sent=4, skipped=3)},
                "erased_deliveries": {"jsonl:/x": {"sent": 3, "failed": 1}, "a sink that is gone": {"sent": 9}},
            }
        )

        def counted():
            return [
                registry.value("ragstone_sink_deliveries_total", sink="jsonl:/x", outcome=outcome)
                for outcome in ("sent", "skipped", "failed")
            ]

        sink.update_status(self.LEDGER)
        before = counted()
        sink.update_status(erased)
        assert before == counted()
        # Nothing of it has to arrive anymore.
        assert 0 == registry.value("ragstone_deliveries_depth", sink="jsonl:/x", state="failed")

    def test_what_waits_grows_older_by_itself(self, sink, registry, monkeypatch):
        """A worker that hangs does not read the ledger. Ages grow meanwhile, and after five minutes nothing is known."""
        now = [100.0]
        monkeypatch.setattr("ragstone.sinks._prometheus_families.time.monotonic", lambda: now[0])
        sink.update_status(self.LEDGER)
        now[0] += 40

        assert 70 == registry.value("ragstone_queue_oldest_seconds")
        assert 100 == registry.value("ragstone_deliveries_oldest_seconds", sink="jsonl:/x")
        now[0] += 300
        assert registry.value("ragstone_queue_depth") is None
        sink.update_status(self.LEDGER)
        assert 30 == registry.value("ragstone_queue_oldest_seconds")

    def test_without_books_there_are_no_zeros(self, sink, registry):
        """Nothing known is not an empty queue."""
        assert registry.value("ragstone_queue_depth") is None
        sink.update_status(Ledger(total=LedgerRow()))
        assert 0 == registry.value("ragstone_queue_depth")

    def test_two_stores_of_one_process_are_added_up(self, sink, registry):
        """Two monitors that show themselves in one place."""
        other = PrometheusSink(registry)
        sink.update_status(self.LEDGER)
        other.update_status(self.LEDGER)

        assert 10 == registry.value("ragstone_queue_depth")
        assert 4 == registry.value("ragstone_deliveries_depth", sink="jsonl:/x", state="pending")
        asyncio.run(other.aclose())
        assert 5 == registry.value("ragstone_queue_depth")


class TestRegistry:
    """The registry is the application's, which serves it."""

    def test_sinks_of_one_registry_count_together_until_the_last_is_closed(self, registry):
        """Two monitors of one application: a scrape shows the sum, and the first one that ends removes nothing."""
        one, two = PrometheusSink(registry), PrometheusSink(registry)
        write(one, score("t"))
        write(two, score("u"), score("t"))

        asyncio.run(one.aclose())
        assert 'ragstone_score_count{app="app",metric="exact_match"} 2.0' in page(registry)
        asyncio.run(two.aclose())
        assert [] == list(registry.collect())

    def test_what_a_closed_sink_has_published_is_gone(self, registry):
        """The ledger of a store that nobody reads anymore is not that of now."""
        closed, other = PrometheusSink(registry), PrometheusSink(registry)
        asyncio.run(closed.aclose())
        closed.update_status(Ledger(total=LedgerRow(pending=3)))

        assert registry.value("ragstone_queue_depth") is None
        asyncio.run(other.aclose())

    def test_closing_leaves_the_application_s_registry(self, registry):
        """A second monitor after the first finds its place free."""
        for _ in range(2):
            sink = PrometheusSink(registry)
            write(sink, score())
            assert 1 == registry.value("ragstone_score_count", metric="exact_match", app="app")
            asyncio.run(sink.aclose())
            asyncio.run(sink.aclose())
        assert [] == list(registry.collect())
        with pytest.raises(SinkUnavailableError, match="is closed"):
            write(sink, score())

    def test_it_has_no_specification(self):
        """A name does not say which registry the application serves, so a sink by name would be scraped by nobody."""
        with pytest.raises(ConfigurationError, match="unknown sink 'prometheus'"):
            sink_from("prometheus")

    @pytest.mark.parametrize("buckets", [[1, 1], [2, 1], []])
    def test_buckets_that_do_not_increase_are_refused(self, registry, buckets):
        """When the sink is made, not when it is scraped, and without a metric in the registry."""
        with pytest.raises(ConfigurationError, match="increasing numbers"):
            PrometheusSink(registry, buckets=buckets)
        assert [] == list(registry.collect())


class TestProcesses:
    """Servers with many processes."""

    def test_the_multi_process_mode_adds_processes_up(self, tmp_path):
        """With PROMETHEUS_MULTIPROC_DIR the application's page has the scores of every process."""
        code = textwrap.dedent("""
            import asyncio, sys
            from prometheus_client import CollectorRegistry
            from ragstone.schema import Score
            from ragstone.sinks import Delivery, PrometheusSink
            sink = PrometheusSink(CollectorRegistry())
            for i in range(int(sys.argv[1])):
                outcome = Score(sample_id=f"{sys.argv[1]}-{i}", metric="m", metric_version="1", value=0.5, method="x")
                asyncio.run(sink.write([Delivery(outcome=outcome, trace_id="t", app="app")]))
        """)
        environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
        for n in ("2", "3"):
            subprocess.run([sys.executable, "-c", code, n], env=environment, check=True)
        reading = (
            "from prometheus_client import *; from prometheus_client.multiprocess import MultiProcessCollector\n"
            "r = CollectorRegistry(); MultiProcessCollector(r); print(generate_latest(r).decode())"
        )
        shown = subprocess.run(
            [sys.executable, "-c", reading], env=environment, capture_output=True, text=True, check=True
        ).stdout

        assert 'ragstone_score_count{app="app",metric="m"} 5.0' in shown
        assert 'ragstone_score_bucket{app="app",le="0.5",metric="m"} 5.0' in shown
