"""Last week's traces and this week's, exported from a tracing tool: what would it cost to score them, and which week was better?

Needs no model, no key, no network and no tracing tool: the exports are written here, as a collector's file exporter
writes the spans of OpenInference's instrumentation.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import ragstone
from ragstone.experiments import TimeRange
from ragstone.replay import plan_replay, replay_traces

FACTS = {
    "When was the lighthouse lit?": "The lighthouse on Gull Rock was lit for the first time in 1874.",
    "Who keeps the lighthouse?": "The lighthouse on Gull Rock is kept by a foundation from Northport.",
    "When does the ferry leave?": "The ferry to Gull Rock leaves at nine and at three.",
}
THIS_WEEK = datetime(2026, 11, 9, tzinfo=UTC)


def span(ids: tuple[str, str, str], started: datetime, seconds: float, **attributes: str) -> dict[str, object]:
    """One span of OTLP: trace, span and parent, times, attributes."""
    trace_id, span_id, parent_id = ids
    begin = int(started.timestamp() * 1e9)
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent_id,
        "name": attributes["openinference.span.kind"].lower(),
        "startTimeUnixNano": str(begin),
        "endTimeUnixNano": str(begin + int(seconds * 1e9)),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }


def write_export(path: Path, week: datetime, *, knows: float) -> None:
    """Write a week of requests, one OTLP message a line, of which the share `knows` is answered."""
    with path.open("w", encoding="utf-8") as file:
        for n in range(60):
            question, passage = list(FACTS.items())[n % len(FACTS)]
            started = week + timedelta(hours=n)
            trace_id = f"{int(started.timestamp()):032x}"
            answer = passage if n % 10 < 10 * knows else "I am afraid that I do not know."
            spans = [
                span(
                    (trace_id, "00000000000000a1", ""),
                    started,
                    2.0,
                    **{"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer},
                ),
                span(
                    (trace_id, "00000000000000a2", "00000000000000a1"),
                    started,
                    0.5,
                    **{
                        "openinference.span.kind": "RETRIEVER",
                        "input.value": question,
                        "retrieval.documents.0.document.content": passage,
                    },
                ),
            ]
            file.write(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}) + "\n")


write_export(Path("last-week.jsonl"), THIS_WEEK - timedelta(days=7), knows=0.6)
write_export(Path("this-week.jsonl"), THIS_WEEK, knows=0.9)
exports, metrics = ["last-week.jsonl", "this-week.jsonl"], ["ccrs.cc", "ccrs.qr"]

# This does not call a judge. In a terminal: ragstone replay *.jsonl --metrics ccrs.cc,ccrs.qr --dry-run
plan = plan_replay(exports, metrics)
print(f"{plan.n_scorable} of {plan.n_traces} requests can be scored, with about {plan.estimate.usage.calls} calls")
for export in plan.files:
    print(f"  {export.name} is {export.format}, known by {export.detected_by}")

# "lexical" compares words. Pass a model server's URL to use an LLM judge. A repeated call resumes and scores no trace twice.
for _ in range(2):
    report = replay_traces(exports, metrics, store="replay.db", judge="lexical")
    print(f"{report.n_new} requests were new")

comparison = ragstone.compare(
    {
        "last week": TimeRange("replay.db", until=THIS_WEEK.timestamp()),
        "this week": TimeRange("replay.db", since=THIS_WEEK.timestamp()),
    }
)
print()
print(comparison)
