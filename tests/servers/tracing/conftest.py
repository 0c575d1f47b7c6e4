"""Tracing tools as an application sees them (spans go in by OTLP) and as their users do (scores come out by their API)."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragstone.schema import Failure, NotApplicable, Score
from ragstone.sinks import Delivery, Sink, sink_from

# Phoenix stores spans after it has answered.
VISIBLE_LIMIT_S = 60


def trace_id_of(span: ReadableSpan) -> str:
    """The trace id as it is captured."""
    return f"{span.context.trace_id:032x}"


def span_id_of(span: ReadableSpan) -> str:
    """The span id as it is captured."""
    return f"{span.context.span_id:016x}"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A score as a tracing tool shows it."""

    id: str
    name: str
    value: float | None
    failure: str | None
    words: str | None
    by_model: bool
    span_id: str
    facts: dict[str, Any] = field(hash=False)


class TracingServer:
    """A real server of a tracing tool, with a project of its own."""

    children: ClassVar[dict[int, ReadableSpan]] = {}
    """Of each root span that was made, by its id: the same spans may go to several servers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.project = f"ragstone-{uuid.uuid4().hex[:8]}"
        self.client = httpx.Client(base_url=url, timeout=60, trust_env=False)

    def sink(self, *, suffix: str = "", path: str = "", url: str | None = None) -> Sink:
        """A sink as its specification makes it, for this server or for `url`."""
        return sink_from(f"{self.kind}{suffix}:{url or self.url}{path}")

    def make_spans(self, n: int) -> list[ReadableSpan]:
        """Root spans of `n` requests, each with a child, none of them sent yet."""
        made = InMemorySpanExporter()
        provider = TracerProvider(
            resource=Resource({"openinference.project.name": self.project}), shutdown_on_exit=False
        )
        provider.add_span_processor(SimpleSpanProcessor(made))
        tracer = provider.get_tracer("application")
        for i in range(n):
            with tracer.start_as_current_span(f"request {i}"), tracer.start_as_current_span("retrieve"):
                pass
        spans = made.get_finished_spans()
        self.children.update({span.parent.span_id: span for span in spans if span.parent})
        return [span for span in spans if span.parent is None]

    def send(self, spans: list[ReadableSpan]) -> None:
        """Export spans as an application does, and wait until the server has them."""
        exporter = OTLPSpanExporter(f"{self.url}/v1/traces", headers=self.otlp_headers(), timeout=60)
        for start in range(0, len(spans), 500):
            chunk = [s for root in spans[start : start + 500] for s in (root, self.children[root.context.span_id])]
            assert SpanExportResult.SUCCESS is exporter.export(chunk)
        exporter.shutdown()
        deadline = time.monotonic() + VISIBLE_LIMIT_S
        while missing := {trace_id_of(span) for span in spans} - self.traces():
            assert time.monotonic() < deadline, f"{len(missing)} of {len(spans)} traces did not appear"
            time.sleep(0.1)

    def sent(self, n: int) -> list[ReadableSpan]:
        """Root spans of `n` requests that the server has."""
        spans = self.make_spans(n)
        self.send(spans)
        return spans

    def otlp_headers(self) -> dict[str, str]:
        """What an exporter sends besides."""
        return {}

    def get(self, path: str, **params: Any) -> Any:
        """The JSON of a GET."""
        return self.client.get(path, params=params).raise_for_status().json()

    def post(self, path: str, body: Any) -> Any:
        """The JSON of the answer to a POST."""
        return self.client.post(path, json=body).raise_for_status().json()


class PhoenixServer(TracingServer):
    """Arize Phoenix."""

    kind = "phoenix"

    def traces(self) -> set[str]:
        """The ids of all traces."""
        found: set[str] = set()
        page = {"next_cursor": ""}
        while (cursor := page["next_cursor"]) is not None:
            answer = self.client.get(f"/v1/projects/{self.project}/spans", params={"limit": 1000, "cursor": cursor})
            if answer.status_code == 404:
                return found  # a project is there from its first span on
            page = answer.raise_for_status().json()
            found |= {span["context"]["trace_id"] for span in page["data"]}
        return found

    def seen(self, spans: list[ReadableSpan]) -> list[Seen]:
        """All scores on these spans."""
        found = []
        for start in range(0, len(spans), 100):
            ids = [span_id_of(span) for span in spans[start : start + 100]]
            page = self.get(f"/v1/projects/{self.project}/span_annotations", span_ids=ids, limit=10_000)
            assert page["next_cursor"] is None
            found += page["data"]
        return [
            Seen(
                id=row["identifier"],
                name=row["name"],
                value=row["result"]["score"],
                failure=row["metadata"]["kind"] if row["result"]["label"] == "failure" else None,
                words=row["result"]["explanation"],
                by_model={"LLM": True, "CODE": False}[row["annotator_kind"]],
                span_id=row["span_id"],
                facts=row["metadata"],
            )
            for row in found
        ]


class MlflowServer(TracingServer):
    """MLflow."""

    kind = "mlflow"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.experiment = self.post("/api/2.0/mlflow/experiments/create", {"name": self.project})["experiment_id"]

    def otlp_headers(self) -> dict[str, str]:
        """Where the spans go."""
        return {"x-mlflow-experiment-id": self.experiment}

    def search(self, condition: str | None = None) -> list[dict[str, Any]]:
        """The traces for which a condition holds."""
        where = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": self.experiment}}
        found, token = [], ""
        while token is not None:
            page = self.post(
                "/api/3.0/mlflow/traces/search",
                {"locations": [where], "max_results": 500, "page_token": token, "filter": condition},
            )
            found += page.get("traces", [])
            token = page.get("next_page_token")
        return found

    def traces(self) -> set[str]:
        """The ids of all traces."""
        return {trace["trace_id"].removeprefix("tr-") for trace in self.search()}

    def seen(self, spans: list[ReadableSpan]) -> list[Seen]:
        """All scores on these spans."""
        wanted = {trace_id_of(span) for span in spans}
        return [
            Seen(
                id=row["metadata"]["id"],
                name=row["assessment_name"],
                value=value if isinstance(value := row["feedback"].get("value"), float) else None,
                failure=row["feedback"].get("error", {}).get("error_code"),
                words=row["rationale"],
                by_model={"LLM_JUDGE": True, "CODE": False}[row["source"]["source_type"]],
                span_id=row["span_id"],
                facts=row["metadata"],
            )
            for trace in self.search()
            if trace["trace_id"].removeprefix("tr-") in wanted
            for row in trace.get("assessments", [])
        ]


SERVERS = {"phoenix": PhoenixServer, "mlflow": MlflowServer}


@pytest.fixture(params=list(SERVERS))
def server(request):
    """A tracing tool, one after the other."""
    made = SERVERS[request.param](request.getfixturevalue(request.param))
    yield made
    made.client.close()


@pytest.fixture
def both(phoenix, mlflow):
    """All tracing tools at once."""
    made = {"phoenix": PhoenixServer(phoenix), "mlflow": MlflowServer(mlflow)}
    yield made
    for each in made.values():
        each.client.close()


@pytest.fixture(scope="session")
def deliveries():
    """Makes deliveries for the request of a span: a score, a plain score and a failure."""

    def make(span: ReadableSpan, **changed: Any) -> list[Delivery]:
        trace_id = f"t-{trace_id_of(span)[:8]}"
        about = {
            "sample_id": trace_id,
            "judge": "tiny at http://judge:8000/v1",
            "judge_hash": "j1",
            "prompt_hash": "p1",
        }
        interval = {"low": 0.5, "high": 0.75, "confidence_level": 0.9, "method": "wilson"}
        outcomes = [
            Score(
                metric="faithfulness", metric_version="2-ab", value=0.625, method="monte_carlo", n=8, interval=interval,
                explanation="The answer says SECRET.", **about,
            ),
            Score(metric="ndcg", metric_version="1", value=1.0, method="exact", sample_id=trace_id),
            Failure(metric="coverage", metric_version="1", kind="timeout", reason="no answer on SECRET", **about),
            NotApplicable(metric="accuracy", metric_version="1", reason="no reference on SECRET", **about),
        ]  # fmt: skip
        place = {"otel_trace_id": trace_id_of(span), "otel_span_id": span_id_of(span), "inclusion_probability": 0.25}
        return [Delivery(outcome=o, trace_id=trace_id, **(place | changed)) for o in outcomes]

    return make


@pytest.fixture(scope="session")
def fact():
    """A fact of a score's metadata as a number or text, however a tool keeps it."""

    def read(seen: Seen, name: str) -> Any:
        value = seen.facts[name]
        try:
            return json.loads(value)
        except (TypeError, ValueError):
            return value

    return read
