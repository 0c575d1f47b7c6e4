"""Record the applications of `replay_apps` as LangSmith, MLflow and the frameworks' own serializers write them.

    python tests/replay/record_runs.py langsmith tracer langfuse_export langchain_objects llama_index_objects
    python tests/replay/record_runs.py mlflow

The second needs MLflow, in an environment of its own: it pins what others pin otherwise. A recording in a process of its
own: what one tool patches, the next one would find.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = HERE / "data"
sys.path.insert(0, str(HERE))


def _lines(values: list[Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def langsmith() -> None:
    """What LangSmith's SDK sends: JSON lines, the runs of a trace apart, and Parquet with inputs as JSON text."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from replay_apps import langchain_app
    from replay_apps.langsmith_capture import captured

    # What the SDK records of a machine is what readers must leave out, so it is invented here.
    os.environ |= {"LANGSMITH_PROJECT": "lighthouse", "LANGSMITH_REVISION_ID": "r-1"}
    with captured("lighthouse") as (tracer, runs):
        langchain_app.run_all([tracer])
    listed = [_invented(run) for run in runs.values()]
    listed.sort(key=lambda run: run["id"][::-1])  # in no order that means anything
    (DATA / "langsmith_runs.jsonl").write_text(_lines(listed), encoding="utf-8")
    names = ("id", "trace_id", "parent_run_id", "dotted_order", "name", "run_type", "start_time", "end_time", "error", "tags",
             "session_name")  # fmt: skip
    rows = [
        {name: run.get(name) for name in names}
        | {name: json.dumps(run.get(name)) for name in ("inputs", "outputs", "extra")}
        for run in listed
    ]
    pq.write_table(pa.Table.from_pylist(rows), DATA / "langsmith_export.parquet")


def _invented(run: dict[str, Any]) -> dict[str, Any]:
    extra = run.get("extra") or {}
    runtime = extra.get("runtime")
    if isinstance(runtime, dict):
        runtime |= {"platform": "Invented-1.0", "runtime_version": "3.11.0"}
    metadata = extra.get("metadata") or {}
    for name in [name for name in metadata if name.startswith("LANGSMITH_") and name != "LANGSMITH_PROJECT"]:
        metadata[name] = "https://langsmith.invalid"
    return {name: _shortened(value) for name, value in run.items() if name not in ("serialized", "events", "manifest")}


def _shortened(value: Any) -> Any:
    """Stacks name files of the machine that recorded."""
    if isinstance(value, str) and "Traceback (most recent call last)" in value:
        head = value.partition("Traceback (most recent call last)")[0]
        return f'{head}Traceback (most recent call last):\n\n\n  File "/home/keeper/app.py", line 1, in invoke\n'
    return value


def tracer() -> None:
    """Runs as LangChain's own tracers keep them, inside one another."""
    from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
    from replay_apps import langchain_app

    collector = RunCollectorCallbackHandler()
    langchain_app.run_all([collector])
    plain = [_with_children(run) for run in collector.traced_runs]
    (DATA / "langchain_tracer_runs.json").write_text(json.dumps(_without_stacks(plain), indent=1), encoding="utf-8")


def _with_children(run: Any) -> dict[str, Any]:
    children = [_with_children(child) for child in run.child_runs]
    return json.loads(run.model_dump_json(exclude={"serialized", "events", "child_runs"})) | {"child_runs": children}


def _without_stacks(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {
            name: _without_stacks(item)
            for name, item in value.items()
            if name not in ("serialized", "events", "runtime")
        }
        return {name: _shortened(item) for name, item in kept.items()}
    return [_without_stacks(item) for item in value] if isinstance(value, list) else value


def langfuse_export() -> None:
    """What Langfuse's SDK sent (see `record.py`), in the columns that the export documents: no server was asked."""
    from datetime import UTC, datetime

    from ragstone.reading import InputFile
    from ragstone.reading.otlp._files import spans_in

    def time(moment: float) -> str:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")

    rows = []
    for span in spans_in(InputFile(DATA / "langfuse.otlp.pb", "langfuse.otlp.pb")):
        said = span.attributes
        about = {name.removeprefix("langfuse.observation."): value for name, value in said.items()}
        rows.append(
            {
                "id": span.span_id,
                "trace_id": span.trace_id,
                "type": about["type"].upper(),
                "parent_observation_id": span.parent_id or "",
                "name": span.name,
                "start_time": time(span.started_at),
                "end_time": time(span.ended_at),
                "latency": 1000 * (span.ended_at - span.started_at),
                "input": about.get("input"),
                "output": about.get("output"),
                "provided_model_name": about.get("model.name", ""),
                "usage_details": json.loads(about.get("usage_details", "{}")),
                "metadata": {n.removeprefix("metadata."): v for n, v in about.items() if n.startswith("metadata.")}
                | {
                    n.removeprefix("langfuse.trace.metadata."): v
                    for n, v in said.items()
                    if n.startswith("langfuse.trace.metadata.")
                },
                "level": about.get("level", "DEFAULT"),
                "status_message": about.get("status_message", ""),
                "session_id": said.get("session.id"),
                "user_id": said.get("user.id"),
                "tags": said.get("langfuse.trace.tags"),
                "environment": "default",
            }
        )
    (DATA / "langfuse_observations_v2.jsonl").write_text(_lines(rows), encoding="utf-8")
    folder = DATA / "langfuse_legacy"
    for name in ("traces", "observations"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    tops = [row for row in rows if not row["parent_observation_id"]]
    traces = [
        {"id": top["trace_id"], "timestamp": top["start_time"]}
        | {name: top[name] for name in ("name", "input", "output", "session_id", "user_id", "tags", "metadata")}
        | {"release": "", "public": False, "bookmarked": False}
        for top in tops
    ]
    moved = ("session_id", "user_id", "tags")
    observations = [{name: value for name, value in row.items() if name not in moved} for row in rows]
    (folder / "traces" / "1.jsonl").write_text(_lines(traces), encoding="utf-8")
    (folder / "observations" / "1.jsonl").write_text(_lines(observations), encoding="utf-8")
    inner = [row for row in observations if row["trace_id"] == tops[0]["trace_id"]]
    answer = {_camel(n): v for n, v in traces[0].items()} | {
        "observations": [{_camel(n): v for n, v in row.items()} for row in inner]
    }
    (DATA / "langfuse_api.json").write_text(
        json.dumps({"data": [answer], "meta": {"page": 1}}, indent=1), encoding="utf-8"
    )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def langchain_objects() -> None:
    """What chains and a graph give back, in the JSON of `langchain_core.load`."""
    from langchain_core.load import dumps
    from langchain_core.messages import AIMessage, HumanMessage
    from replay_apps import langchain_app as app

    result = app.stated().invoke({"input": app.QUESTION})
    state = {
        "messages": [HumanMessage(app.QUESTION), AIMessage(app.ANSWER)],
        "documents": [app.TOWER, app.STAIRS],
        "attempt": 1,
    }
    (DATA / "langchain_objects.jsonl").write_text(
        "".join(dumps(item) + "\n" for item in (result, state)), encoding="utf-8"
    )


def llama_index_objects() -> None:
    """A response with the question beside it, and the result of an evaluator."""
    from llama_index.core.evaluation import EvaluationResult
    from replay_apps import llama_index_app as app

    (_, engine, question), *_ = app.requests()
    response = engine.query(question)
    row = {
        "query": question,
        "response": response.response,
        "source_nodes": [node.to_dict() for node in response.source_nodes],
        "metadata": response.metadata,
    }
    (DATA / "llama_index_response.json").write_text(json.dumps(row, indent=1), encoding="utf-8")
    result = EvaluationResult(
        query=question, contexts=list(app.TEXTS.values()), response=app.ANSWER, passing=True, score=1.0
    )
    (DATA / "llama_index_evaluation.jsonl").write_text(result.model_dump_json() + "\n", encoding="utf-8")


def mlflow() -> None:
    """Traces of MLflow's autologging, read back from its store: JSON lines, and the table of a search."""
    import mlflow as client
    from replay_apps import langchain_app

    with tempfile.TemporaryDirectory() as folder:
        client.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        # Otherwise its artifacts land in `mlruns`, wherever this was started.
        client.create_experiment("lighthouse", artifact_location=f"file://{folder}/artifacts")
        client.set_experiment("lighthouse")
        client.langchain.autolog()
        langchain_app.run_all()
        client.flush_trace_async_logging()
        traces = sorted(client.search_traces(return_type="list"), key=lambda trace: trace.info.request_time)
        client.log_expectation(
            trace_id=traces[0].info.trace_id,
            name="expected_response",
            value="41 metres.",
            source=client.entities.AssessmentSource(source_type="HUMAN", source_id="keeper"),
        )
        traces = sorted(client.search_traces(return_type="list"), key=lambda trace: trace.info.request_time)
        table = client.search_traces()
    lines = "".join(trace.to_json() + "\n" for trace in traces)
    (DATA / "mlflow_traces.jsonl").write_text(_anonymous(lines, folder), encoding="utf-8")
    # What is left are the spans, and previews of the question that are too short to be one.
    rows = [_as_json(row, folder) for row in table.to_dict(orient="records")]
    import pandas as pd

    for row in rows:
        row["spans"] = json.dumps(row["spans"])
    pd.DataFrame(rows).to_parquet(DATA / "mlflow_table.parquet")


def _as_json(row: dict[str, Any], folder: str) -> dict[str, Any]:
    plain = json.loads(_anonymous(json.dumps(row, default=str), folder))
    return {name: plain[name] for name in ("trace_id", "state", "request_time", "trace_metadata", "tags", "spans")}


def _anonymous(text: str, folder: str) -> str:
    import getpass
    import re

    text = re.sub(
        r'("mlflow\.(?:user|source\.name|source\.git\.\w+|artifactLocation)": ?)"[^"]*"', r'\1"invented"', text
    )
    text = re.sub(r'("exception\.stacktrace": ?)"(?:[^"\\]|\\.)*"', r'\1"Traceback"', text)
    return text.replace(folder, "/invented").replace(f'"{getpass.getuser()}"', '"invented"')


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    names = sys.argv[1:]
    if len(names) == 1:
        globals()[names[0]]()
    else:
        for name in names:
            subprocess.run([sys.executable, __file__, name], check=True, env=os.environ)
