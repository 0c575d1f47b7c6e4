"""Readers under hostile input: whatever bytes come, only documented errors, and no crash of detection.

`RAGSTONE_FUZZ=10000 pytest tests/replay/test_fuzz_readers.py` mutates each recording that often; the default is small.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from mutations import MUTATIONS
from ragstone.errors import DataError
from ragstone.reading import InputFile, RejectedRecord, TraceFormat
from ragstone.reading._formats import all_formats
from ragstone.reading.otlp import OtlpFormat, spans_of_request
from ragstone.schema import Captured, Trace, spool_entry_adapter

DATA = Path(__file__).parent / "data"
N = int(os.environ.get("RAGSTONE_FUZZ", "200"))

OTHERS = {
    "langsmith": ("langsmith_runs.jsonl", "langsmith_export.parquet", "langchain_tracer_runs.json"),
    "langfuse": ("langfuse_observations_v2.jsonl", "langfuse_api.json"),
    "phoenix": ("phoenix_spans.json", "phoenix_spans.parquet"),
    "mlflow": ("mlflow_traces.jsonl", "mlflow_table.parquet"),
    "objects": ("langchain_objects.jsonl", "llama_index_response.json"),
    "rows": ("rows_ragas.jsonl", "rows_deepeval.csv", "rows_ragchecker.json", "shelf.run"),
    "ragstone": ("ragstone_traces.jsonl",),
}
FORMATS: dict[str, TraceFormat] = {
    **{name: all_formats()[format_name] for format_name, names in OTHERS.items() for name in names},
    "genai.otlp.jsonl": OtlpFormat(),
    "langfuse.otlp.pb": OtlpFormat(),
    "openinference_langchain.otlp.jsonl": OtlpFormat(),
    "openinference_llama_index.otlp.json": OtlpFormat(),
    "traceloop_langchain.otlp.jsonl": OtlpFormat(),
    "traceloop_llama_index.otlp.jsonl": OtlpFormat(),
}


def smaller(content: bytes, name: str, rng: random.Random) -> bytes:
    """Some of a recording's records: a mutation of few is tried faster."""
    if name.endswith(".jsonl"):
        lines = content.splitlines(keepends=True)
        return b"".join(rng.sample(lines, min(len(lines), 2)))
    if name == "phoenix_spans.json":
        return json.dumps({"data": rng.sample(json.loads(content)["data"], 12)}).encode()
    return content


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FORMATS)
def test_mutated_exports_end_in_traces_rejections_or_a_data_error(name, tmp_path):
    """Each item is a trace that can be written, or a rejection with a place and a reason; nothing else is raised."""
    reader, original = FORMATS[name], (DATA / name).read_bytes()
    rng = random.Random(name)
    path = tmp_path / "export"
    ends: Counter[str] = Counter()
    for _ in range(N):
        content = rng.choice(MUTATIONS)(smaller(original, name, rng), rng)
        path.write_bytes(content)
        detected = reader.detect(content[:20_000])
        assert detected is None or isinstance(detected, str)
        try:
            for item in reader.read(InputFile(path, "export")):
                ends[type(item).__name__] += 1
                if isinstance(item, RejectedRecord):
                    assert item.place
                    assert 0 < len(item.reason) < 2000
                else:
                    assert isinstance(item, Trace)
                    written = spool_entry_adapter.dump_json(Captured(trace=item))
                    assert item.trace_id == spool_entry_adapter.validate_json(written).trace.trace_id
        except DataError as error:
            ends["DataError" if 0 < len(str(error)) < 2000 else "an error that says nothing"] += 1
    print(name, dict(ends))
    assert 0 == ends["an error that says nothing"]
    assert ends["Trace"]
    assert ends["Rejected"] + ends["DataError"]


@pytest.mark.timeout(3600)
def test_mutated_requests_to_a_receiver_end_in_spans_or_a_data_error():
    """What a receiver on the network is sent raises nothing but what it answers with."""
    rng = random.Random("receiver")
    as_json = (DATA / "genai.otlp.jsonl").read_bytes().splitlines()[0]
    pb = (DATA / "langfuse.otlp.pb").read_bytes()[3:]
    for _ in range(N):
        for body, kind in ((as_json, "application/json"), (pb, "application/x-protobuf")):
            mutated = rng.choice(MUTATIONS)(body, rng)
            with contextlib.suppress(DataError):
                spans_of_request(mutated, kind)
