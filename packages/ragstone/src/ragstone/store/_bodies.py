"""Bodies: records as JSON that ends with its checksum, compressed in a file.

A body is the JSON of a record with `checksum` as its last member: the CRC-32 of the JSON without this member.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Callable
from math import isfinite
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from ragstone.errors import DataError
from ragstone.schema import Outcome, Score, Trace, TraceOutline, outcome_adapter
from ragstone.store._checksums import damaged, stored_text

R = TypeVar("R")
T = TypeVar("T", Trace, TraceOutline)
_IN_HAND_MOST: Final = 2048
"""Records in hand: a full batch of a worker, with five outcomes for each request."""
_IN_HAND_LONGEST: Final = 8192
"""Bytes of the JSON of a record in hand."""
_in_hand: Final = OrderedDict[bytes, Any]()
"""The latest records of this process by their JSON, so that a worker delivers what it has scored without parsing it."""
_END: Final = b',"checksum":"%08x"}'
_LENGTH: Final = len(_END % 0)
_FORMAT: Final = b"\x01"
"""First byte of a compressed body: raw deflate with the dictionary below."""
_LEVEL: Final = 6
_SHORT: Final = 4096
"""Bytes of a body that fits into a window of 8 KiB with the dictionary."""

# Part of the format: stored bodies cannot be read with another one. Only what is added at its beginning does not matter.
_DICTIONARY: Final = rb"""
"response_id":null,
{"schema_version":1,"trace_id":"","name":null,"source":"opentelemetry","source":"llama-index","source":"langchain",
"run_id":null,"parent_run_id":null,"otel_trace_id":null,"otel_span_id":null,"otel_sampled":null,"session_id":null,
"user_id":null,"app":null,"release":null,"environment":null,"query":"","standalone_query":null,"history":[],
"retrievals":[{"query":"","passages":[{"text":"","id":"","score":0.,"rank":null,"relevance":null,"metadata":{"source":""}}
,"rank":null,"relevance":null,"metadata":{}}],"name":null,"stages":[]}],"contexts":null,"response":"","reference":[],
"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":17,
"ended_at":null,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,
"truncated_fields":[],"evidence":{"query":"unknown","contexts":"unknown","response":"unknown","doubts":[]}}
,"query":"","standalone_query":null,"history":[],"retrievals":[],"contexts":null,"response":"The ","reference":[],"sub_questions":[],"qrels":null,"ratings":null,"status":"ok","error":null,"inner_errors":[],"started_at":17,"ended_at":17,"first_token_s":null,"model":null,"usage":null,"tags":[],"metadata":{},"inclusion_probability":1.0,"truncated_fields":[],"evidence":{"query":"stated","contexts":"in_prompt","response":"stated","doubts":[],"declared_tools":{}},"checksum":"
"details":{"claims":[{"claim":"The ","supported":true},{"claim":"","supported":false,"passages":[1],"right":true}],
"reference_claims":[],"questions":[],"n_missing":0,"bounds":[0.0,1.0],"noncommittal":true},"raw":null,"checksum":"
{"schema_version":1,"sample_id":"","fingerprint":"","metric":"recall@10","metric_version":"1","scale":null,"judge":null,"judge_hash":"","prompt_hash":null,"answer":[],"usage":null,"created_at":17,"duration_s":0.000,"outcome":"not_applicable","reason":"no reference","missing":["reference"],"checksum":"
"outcome":"failure","kind":"timeout","reason":"the judge ","details":{},"raw":null,"checksum":"
{"schema_version":1,"sample_id":"","fingerprint":"","metric":"precision","metric_version":"1","scale":null,"judge":null,"judge_hash":"","prompt_hash":null,"answer":[],"usage":null,"created_at":17,"duration_s":0.000,"outcome":"score","value":0.,"interval":null,"method":"exact","n":1,"explanation":null,"details":{},"raw":null,"checksum":"
{"schema_version":1,"sample_id":"","fingerprint":"","metric":"ragchecker.faithfulness","metric":"ccrs.cc","metric_version":"1+","scale":null,"judge":"openai:","judge_hash":"","prompt_hash":"","answer":[],"usage":{"input_tokens":,"output_tokens":,"calls":1,"cached":0,"cost_usd":null,"priced_calls":0,"counted_calls":1},"created_at":17,"duration_s":0.,"outcome":"score","value":0.,"interval":{"low":0.,"high":1.0,"confidence_level":0.95,"method":""},"interval":null,"method":"single_reply","n":1,"explanation":"The ","details":{},"raw":"{\"score\": ","checksum":"
"""

# For short and long bodies. A copy costs less than reading the dictionary, and the usual size as much as a short body.
_STATES: Final = [zlib.compressobj(_LEVEL, zlib.DEFLATED, -w, m, 0, _DICTIONARY) for w, m in ((13, 6), (15, 8))]


class Body(str):
    """The JSON of a record with its checksum. A file stores it compressed, PostgreSQL as text, which SQL can query."""

    __slots__ = ()


def _compress(body: Body) -> bytes:
    data = body.encode()
    deflate = _STATES[len(data) > _SHORT].copy()
    return _FORMAT + deflate.compress(data) + deflate.flush()


sqlite3.register_adapter(Body, _compress)


def to_body(record: Trace | Outcome) -> Body:
    """Return a record as a body.

    Raise DataError if a free field (`metadata`, `details`, an unknown one) contains a value that JSON cannot express.
    """
    try:
        text = record.model_dump_json()
    except PydanticSerializationError as exc:
        name = record.trace_id if isinstance(record, Trace) else "/".join(record.key[:2])
        raise DataError(
            f"the {type(record).__name__} {name!r} cannot be stored as JSON ({exc}). Put only text, finite numbers, "
            "booleans, lists and dicts into its metadata or details."
        ) from exc
    if not isinstance(record, Trace) and _is_plain(getattr(record, "details", {})) and _is_plain(record.model_extra):
        _keep(text.encode(), record)
    return seal(text)


def _is_plain(value: object) -> bool:
    """Return whether a value of a free field is read from JSON as it was written."""
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(member) for key, member in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or type(value) in (str, bool, int) or (type(value) is float and isfinite(value))


def _keep(text: bytes, record: Trace | Outcome) -> None:
    """Keep a record in hand. Each step is one operation of a dictionary: neither threads nor forks need a lock."""
    if len(text) <= _IN_HAND_LONGEST:
        _in_hand[text] = record
        if len(_in_hand) > _IN_HAND_MOST:
            _in_hand.popitem(last=False)


def seal(text: str) -> Body:
    """Return the text of a JSON object with its checksum as the last member."""
    return Body(text[:-1] + (_END % zlib.crc32(text.encode())).decode())


def text_of(body: object, table: str, row: str | None = None) -> bytes:
    """Return the JSON of a body without its checksum. Its table and the id of its row are for the error.

    Raise DamagedRowError if it is not as it was written.
    """
    if isinstance(body, str):
        data = body.encode("utf-8", "surrogatepass")
    elif isinstance(body, bytes) and body[:1] == _FORMAT:
        inflate = zlib.decompressobj(-15, _DICTIONARY)
        try:
            data = inflate.decompress(body[1:])
        except zlib.error:
            raise damaged(table, row, "it cannot be decompressed") from None
        if not inflate.eof or inflate.unused_data:
            raise damaged(table, row, "its compressed text does not have the right length")
    else:
        raise damaged(table, row, f"it is not text ({type(body).__name__})")
    text = data[:-_LENGTH] + b"}"
    if data[-_LENGTH:] != _END % zlib.crc32(text):
        raise damaged(table, row, "it differs from its checksum")
    return text


def to_trace(body: object, trace_id: str | None = None, *, keep: bool = False) -> Trace:
    """Return the trace of a stored body, and verify that its row has this id. `keep`: it will be read again soon.

    Raise DamagedRowError if it is not as it was written.
    """
    text = text_of(body, "trace_bodies", trace_id)
    trace = _in_hand.get(text) or _parsed(text, "trace_bodies", trace_id, Trace.model_validate_json)
    if keep:
        _keep(text, trace)
    return _of_row(trace, trace_id)


def to_outline(body: object, trace_id: str) -> TraceOutline:
    """Return the outline of the trace of a body, as `to_trace` does."""
    text = text_of(body, "trace_bodies", trace_id)
    return _of_row(_parsed(text, "trace_bodies", trace_id, TraceOutline.model_validate_json), trace_id)


def _of_row(trace: T, trace_id: str | None) -> T:
    if trace_id is not None and trace.trace_id != trace_id and stored_text(trace.trace_id) != trace_id:
        raise damaged("trace_bodies", trace_id, f"it belongs to {trace.trace_id!r}")
    return trace


def to_outcome(
    body: object, outcome_id: str | None = None, value: object = None, request: str | None = None
) -> Outcome:
    """Return the outcome of a body, and verify that it belongs to the row with this id and value, and to this request.

    Raise DamagedRowError if it is not as it was written.
    """
    text = text_of(body, "outcome_bodies", outcome_id)
    outcome = _in_hand.get(text) or _parsed(text, "outcome_bodies", outcome_id, outcome_adapter.validate_json)
    if outcome_id is not None:
        if outcome.id != outcome_id:
            raise damaged("outcome_bodies", outcome_id, f"it belongs to {outcome.id!r}")
        if value != (outcome.value if isinstance(outcome, Score) else None):
            raise damaged("outcomes", outcome_id, f"its value {value!r} differs from that of its body")
        if request not in (None, outcome.sample_id) and request != stored_text(outcome.sample_id):
            raise damaged("outcomes", outcome_id, "its request is not that of its body")
    return outcome


def _parsed(text: bytes, table: str, row: str | None, parse: Callable[[bytes], R]) -> R:
    try:
        return parse(text)
    except ValidationError as exc:
        # The message quotes neither the text nor pydantic's error, because both may contain text of a user.
        where = ", ".join(
            ".".join(map(str, error["loc"])) or error["type"] for error in exc.errors(include_input=False)
        )
        raise damaged(table, row, f"it is wrong at {where}, so another program wrote it") from exc
