"""Targets of the fuzz tests: functions that read bytes of unknown origin, each with valid inputs to mutate.

A target returns a short description of how it ended. It may raise only errors of Ragstone, which commands print without a
traceback. Everything else is a finding, also an endless loop and gigabytes of memory.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from mutations import HOSTILE, MUTATIONS
from ragstone._util.waiting import retry_after_s
from ragstone.cli import main
from ragstone.errors import JudgeError, RagstoneError
from ragstone.experiments import read_outcomes
from ragstone.ingest._body import decompress
from ragstone.judges import ReplyCache
from ragstone.judges._http.errors import extract_error_message
from ragstone.judges._http.replies import completions, token_ids
from ragstone.judges._parse import parse_json, parse_number
from ragstone.reading import InputFile, RejectedRecord, read_qrels, read_samples
from ragstone.reading._formats import all_formats
from ragstone.reading.otlp import OtlpFormat, spans_of_request
from ragstone.schema import Captured, Dropped, Failure, Passage, Retrieval, Score, Trace, spool_entry_adapter
from ragstone.settings import read_file
from ragstone.spool import SpoolReader
from ragstone.spool._format import END, LAST, MORE, frame, header
from ragstone.store._bodies import _compress, to_body, to_outcome, to_trace
from ragstone_lab._dataset.documents import read_documents
from ragstone_lab._validation.labels import read_labels

DATA = Path(__file__).parents[1] / "replay" / "data"
FORMATS = {**all_formats(), "otlp": OtlpFormat()}
"""Found once. Looking for the formats of other packages takes longer than most inputs."""
TABLES = ("phoenix", "mlflow")
"""Formats with files of Parquet."""
MESSAGE_BYTES = 8 * 2**20
LONGEST_MESSAGE = 4_000
"""Characters of an error. A message that quotes a whole input helps nobody."""


@dataclass(frozen=True)
class Target:
    """A function that reads bytes."""

    run: Callable[[bytes, Path], str]
    """Takes the input and an empty directory."""
    seeds: Callable[[], list[bytes]]
    """Returns valid inputs."""


TRACE = Trace(
    trace_id="trace-1",
    query="Which ferry leaves first?",
    response="The ferry at 6:10 leaves first.",
    retrievals=[
        Retrieval(query="ferry", passages=[Passage(text="The first ferry leaves at 6:10.", id="p1", score=0.5)])
    ],
    started_at=1.7e9,
    session_id="session-1",
    metadata={"tags": ["a", "b"], "nested": {"n": 1}},
)
SCORE = Score(sample_id="trace-1", metric="m", metric_version="1", value=0.5, method="exact", explanation="It fits.")
FAILURE = Failure(sample_id="trace-1", metric="m", metric_version="1", kind="unparseable", reason="Two numbers.")


def parquet(content: bytes) -> bytes:
    """Return an input that is JSON as a Parquet file of its rows: damaged files rarely get as far as their values."""
    if not content.startswith(b"["):
        return content
    try:
        table = pa.Table.from_pylist(json.loads(content))
        pq.write_table(table, buffer := io.BytesIO(), compression="zstd")
    except (ValueError, RecursionError, TypeError, AttributeError, OverflowError, pa.ArrowException):
        return content
    return buffer.getvalue()


def lines(*rows: Mapping[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def path_with(content: bytes, folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def ingest(content_type: str, body: bytes, _: Path) -> str:
    encoding = "gzip" if body.startswith(b"\x1f\x8b") else "identity"
    message = decompress(body, encoding, MESSAGE_BYTES)
    if message is None:
        return "too large"
    found = spans_of_request(message, content_type)
    return "rejected" if any(isinstance(each, RejectedRecord) for each in found) else f"{min(len(found), 1)} spans"


def message_seeds(name: str, skip: int) -> list[bytes]:
    content = (DATA / name).read_bytes()
    first = content.splitlines()[0] if name.endswith("l") else content[skip:]
    return [first, gzip.compress(first, 1, mtime=0)]


def replay(name: str, content: bytes, folder: Path) -> str:
    reader = FORMATS[name]
    if name in TABLES:
        content = parquet(content)
    path = path_with(content, folder, "export")
    reader.detect(content[:20_000])
    end = "nothing"
    for item in reader.read(InputFile(path, "export")):
        if isinstance(item, RejectedRecord):
            check_message(item.reason)
            end = "rejected"
        else:
            written = spool_entry_adapter.dump_json(Captured(trace=item))
            assert item.trace_id == spool_entry_adapter.validate_json(written).trace.trace_id
            end = "trace"
    return end


def recordings(*names: str) -> list[bytes]:
    found = []
    for name in names:
        content = (DATA / name).read_bytes()
        if name.endswith(".parquet"):
            rows = pq.read_table(DATA / name).slice(0, 5).to_pylist()
            # Values that JSON does not have become text: a column of another type is one more hostile input.
            found.append(json.dumps(rows, default=str).encode())
        if name.endswith("l"):
            all_lines = content.splitlines(keepends=True)
            found += [b"".join(all_lines[n : n + 2]) for n in range(0, min(len(all_lines), 12), 2)]
        else:
            found.append(content)
    return found


def spool(content: bytes, folder: Path) -> str:
    name = "20261124T120000.000000Z-4711-0123abcd.seg"
    path_with(content, folder, name)
    reader = SpoolReader(folder)
    offset, n = 0, 0
    for state in reader.segments():
        while True:
            batch = reader.read(state.name, offset)
            assert batch.next_offset >= offset
            for entry in batch.entries:
                # What is damaged is counted, and never read as something else.
                assert (
                    entry.reason == "corrupt_segment" if isinstance(entry, Dropped) else entry == Captured(trace=TRACE)
                )
            n += len(batch.entries)
            if batch.at_end or batch.next_offset == offset:
                break
            offset = batch.next_offset
    return "entries" if n else "nothing"


def spool_seeds() -> list[bytes]:
    payload = spool_entry_adapter.dump_json(Captured(trace=TRACE))
    one, several = frame(payload, LAST), frame(payload, MORE) + frame(payload, LAST)
    return [
        header(pid=4711, created_at=1.7e9) + one + several + END,
        header(pid=4711, created_at=1.7e9) + several + one,
    ]


def body(content: bytes, _: Path) -> str:
    for parse in (to_trace, to_outcome):
        with contextlib.suppress(RagstoneError):
            # A text body, as PostgreSQL returns it, and a compressed one.
            stored = content.decode(errors="replace") if content.startswith(b"{") else content
            # A checksum that fits by accident: what is read must be one of the originals.
            assert parse(stored) in (TRACE, SCORE, FAILURE)
            return "unchanged"
    return "damaged"


def body_seeds() -> list[bytes]:
    bodies = [to_body(each) for each in (TRACE, SCORE, FAILURE)]
    return [form for each in bodies for form in (_compress(each), each.encode())]


def cached(content: bytes, folder: Path) -> str:
    cache_file = ReplyCache(folder)
    path_with(content, folder, "replies.sqlite")
    reply = cache_file.read("key-1")
    assert reply in (None, {"text": "85", "usage": {"n": 7}})
    cache_file.get_fact("fact-1", max_age_s=1e12)
    cache_file.write([("key-2", "model", {"text": "7"})])
    return "nothing" if reply is None else "reply"


def cache_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        cache_file = ReplyCache(folder, clock=lambda: 1.7e9)
        cache_file.write(
            [("key-1", "model", {"text": "85", "usage": {"n": 7}}), ("key-3", "model", {"text": "x" * 900})]
        )
        cache_file.put_fact("fact-1", "value")
        return [cache_file.path.read_bytes()]


def samples(suffix: str, content: bytes, folder: Path) -> str:
    content = parquet(content) if suffix == ".parquet" else content
    found, rejected = read_samples(path_with(content, folder, f"rows{suffix}"), on_bad_row="skip")
    for each in rejected:
        check_message(each.reason)
    return "samples" if found else "nothing"


ROWS = (
    {"id": "a", "query": "q", "response": "r", "contexts": ["one", "two"], "reference": "g"},
    {
        "id": "b",
        "question": "q",
        "answer": "r",
        "retrieved_contexts": [{"text": "x", "score": 0.5}],
        "metadata": {"n": 1},
    },
)


PARQUET_ROWS = [
    {"id": "a", "query": "q", "response": "x", "contexts": ["p"]},
    {"id": "b", "query": "r", "response": "y", "contexts": ["q", "s"]},
]


def parquet_seed() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(PARQUET_ROWS), buffer, compression="zstd")
    return buffer.getvalue()


def labels(content: bytes, folder: Path) -> str:
    read_labels(path_with(content, folder, "labels.csv"), metrics=["m"])
    return "labels"


def outcomes(content: bytes, folder: Path) -> str:
    read_outcomes(path_with(content, folder, "outcomes.jsonl"), name="a")
    return "outcomes"


def documents(content: bytes, folder: Path) -> str:
    path_with(content, folder, "documents.jsonl")
    return f"{min(len(read_documents([folder / 'documents.jsonl']).documents), 1)} documents"


def qrels(content: bytes, folder: Path) -> str:
    read_qrels(path_with(content, folder, "qrels.txt"))
    return "qrels"


CONFIG = b"""
judge = "http://127.0.0.1:1/v1"
[scoring]
metrics = ["ccrs", "udcg"]
sinks = ["jsonl:out.jsonl"]
[sampling]
sample_rate = 0.5
[reader]
url = "http://127.0.0.1:1/v1"
model = "m"
[watch]
false_alarms_per_quarter = 1
[retention]
bodies_older_than = "30d"
[daily_budget]
calls = 100
[[sampling.rules]]
app = "a"
rate = 0.5
"""


def config(content: bytes, folder: Path) -> str:
    read_file(path := path_with(content, folder, "ragstone.toml"))
    return command([b"--config", str(path).encode(), b"metrics", b"--json"], folder)


REPLIES = [
    "Score: 85/100", "**Rating: 7 out of 10**", '{"score": 85, "reason": "It fits."}', "```json\n[1, 2]\n```",
    "<think>First 10, then 20.</think>\n85", "The score is 70-80.", '{"claims": ["a", "b"]}', "得分: 85。", "\\boxed{85}",
]  # fmt: skip
SCHEMA = TypeAdapter(list[int] | dict[str, Any])


def reply_text(content: bytes, _: Path) -> str:
    text = content.decode(errors="surrogateescape")
    end = "nothing"
    for parse in (parse_number, lambda text: parse_json(text, SCHEMA)):
        try:
            value = parse(text)
        except JudgeError as error:
            check_message(str(error))
        else:
            end = "value"
            assert not isinstance(value, float) or 0 <= value <= 100
    return end


REPLY = {
    "choices": [
        {
            "message": {"role": "assistant", "content": "85"},
            "finish_reason": "stop",
            "logprobs": {
                "content": [{"token": "85", "logprob": -0.1, "top_logprobs": [{"token": "8", "logprob": -2}]}]
            },
        }
    ],
    "tokens": [1, 2],
    "error": {"message": "m", "code": 3},
    "usage": {"prompt_tokens": 3},
}


def reply_body(content: bytes, _: Path) -> str:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return "not JSON"
    extract_error_message(value)
    retry_after_s({"retry-after": content[:30].decode("latin-1")})
    if not isinstance(value, dict):
        return "not an object"
    end = "nothing"
    for read in (completions, token_ids):
        with contextlib.suppress(JudgeError):
            read(value)
            end = "value"
    return end


COMMANDS = [
    ["status", "store.db"], ["status", "store.db@2026-01-01..2026-02-01"], ["traces", "store.db", "--where", "app=a"],
    ["traces", "store.db", "--since", "7d"], ["metrics", "ccrs"], ["metrics", "--json", "ndcg@10"],
    ["compare", "a.jsonl", "b.jsonl"], ["compare", "store.db@..2026-01-01", "a.jsonl", "--margin", "0.05"],
    ["evaluate", "a.jsonl", "--metrics", "ndcg@10", "--dry-run"], ["replay", "a.jsonl", "--metrics", "ndcg@5", "--dry-run"],
    ["store", "prune", "store.db", "--bodies-older-than", "30d"], ["store", "export", "store.db@1d", "out.jsonl"],
    ["store", "erase", "store.db", "--user", "u", "--dry-run"], ["store", "verify", "store.db"],
    ["store", "deliveries", "store.db", "--state", "failed"], ["watch", "store.db", "--alarm", "1"], ["store", "cache", "folder"],
    ["labels", "add", "store.db", "a.jsonl", "--range", "0,1"], ["report", "a.jsonl", "--output", "out.html"],
]  # fmt: skip


def command(arguments: list[bytes], folder: Path) -> str:
    """Run a command in this process. Its exit code must be a documented one, and nothing may print a traceback."""
    texts = [argument.replace(b"\0", b"").decode(errors="surrogateescape") for argument in arguments]
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with contextlib.chdir(folder), contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            main(texts)
        except SystemExit as end:
            code = end.code or 0
        else:
            code = 0
    output.seek(0)
    printed = output.read()
    assert code in (0, 1, 2, 3, 4), f"exit code {code}: {printed[-1000:]}"
    assert "Traceback" not in printed, printed[-3000:]
    return f"exit code {code}"


def command_line(content: bytes, folder: Path) -> str:
    arguments = content.split(b"\n")
    # Neither another directory nor a network.
    if any(b"/" in each or b"~" in each or b"postgres" in each for each in arguments):
        return "left out"
    (folder / "a.jsonl").write_bytes(lines(*ROWS))
    return command(arguments, folder)


def check_message(text: str) -> None:
    assert 0 < len(text) <= LONGEST_MESSAGE, f"a message of {len(text)} characters: {text[:200]!r}"


RECORD = {
    "outcome_id": SCORE.id,
    "outcome_json": SCORE.model_dump_json(),
    "trace_json": TRACE.model_dump_json(),
}

TARGETS: dict[str, Target] = {
    "ingest-json": Target(partial(ingest, "application/json"), partial(message_seeds, "genai.otlp.jsonl", 0)),
    "ingest-protobuf": Target(partial(ingest, "application/x-protobuf"), partial(message_seeds, "langfuse.otlp.pb", 3)),
    **{
        f"replay-{name}": Target(partial(replay, name), partial(recordings, *files))
        for name, files in {
            "otlp": ("genai.otlp.jsonl", "langfuse.otlp.pb", "openinference_langchain.otlp.jsonl", "traceloop_langchain.otlp.jsonl"),
            "langsmith": ("langsmith_runs.jsonl", "langchain_tracer_runs.json"),
            "langfuse": ("langfuse_observations_v2.jsonl", "langfuse_api.json"),
            "phoenix": ("phoenix_spans.parquet",),
            "mlflow": ("mlflow_traces.jsonl", "mlflow_table.parquet"),
            "objects": ("langchain_objects.jsonl", "llama_index_response.json"),
            "rows": ("rows_ragas.jsonl", "rows_deepeval.csv", "rows_ragchecker.json", "shelf.run"),
            "ragstone": ("ragstone_traces.jsonl",),
        }.items()
    },
    "spool": Target(spool, spool_seeds),
    "store-body": Target(body, body_seeds),
    "reply-cache": Target(cached, cache_seeds),
    "samples-jsonl": Target(partial(samples, ".jsonl"), lambda: [lines(*ROWS)]),
    "samples-json": Target(partial(samples, ".json"), lambda: [json.dumps({"results": ROWS}).encode()]),
    "samples-csv": Target(
        partial(samples, ".csv"), lambda: [b'id,query,response,contexts\na,q,r,"[""one"", ""two""]"\nb,q,"r\ns",x\n']
    ),
    "samples-parquet": Target(partial(samples, ".parquet"), lambda: [parquet_seed(), json.dumps(PARQUET_ROWS).encode()]),
    "samples-trec": Target(partial(samples, ".run"), lambda: [b"q1 Q0 d1 1 0.5 run\nq1 Q0 d2 2 0.25 run\n"]),
    "qrels": Target(qrels, lambda: [b"q1 0 d1 1\nq1 0 d2 0\n", b"query-id\tcorpus-id\tscore\nq1\td1\t1\n"]),
    "labels": Target(labels, lambda: [b"id,m,rater\na,0.5,ann\nb,yes,bob\n"]),
    "outcomes": Target(outcomes, lambda: [lines(SCORE.model_dump(mode="json"), FAILURE.model_dump(mode="json"))]),
    "documents": Target(documents, lambda: [lines({"id": "d1", "text": "The first ferry leaves at 6:10."})]),
    "config": Target(config, lambda: [CONFIG]),
    "judge-reply": Target(reply_text, lambda: [text.encode() for text in REPLIES]),
    "judge-body": Target(reply_body, lambda: [json.dumps(REPLY).encode()]),
    "command-line": Target(command_line, lambda: ["\n".join(each).encode() for each in COMMANDS]),
}  # fmt: skip


@cache
def seeds_of(target: str) -> list[bytes]:
    """Return the valid inputs of a target, which are made once."""
    return TARGETS[target].seeds()


def make_input(target: str, seed: int, n: int) -> bytes:
    """Return the nth input of a target. It depends on nothing else."""
    rng = random.Random(f"{seed}:{target}:{n}")
    content = rng.choice(seeds_of(target))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        # Several mutations of a short text may leave nothing.
        content = rng.choice(MUTATIONS)(content, rng) if content else rng.choice(HOSTILE)
    return content


def run_input(target: str, content: bytes, folder: Path) -> str:
    """Run a target, and return how it ended.

    Raises:
        Exception: If the input is a finding.
    """
    try:
        return TARGETS[target].run(content, folder)
    except RagstoneError as error:
        check_message(str(error))
        return type(error).__name__
