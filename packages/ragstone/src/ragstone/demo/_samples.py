"""Small files for trying commands: answers about the demo's handbook, an older version of them, labels, traces."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from ragstone.demo._chain import Bm25, extract_answer, load_corpus, load_questions

# Mistakes that the extracted answers do not make by themselves.
_NOT_RETRIEVED: Final = frozenset({"q14", "q21"})
"""Questions whose passage the retriever of `answers` misses."""
_UNSUPPORTED: Final = {"q06": "A vehicle may carry two gas bottles. The crew stores larger bottles on the upper deck."}
"""Answers of `answers` with a claim that the passages do not support."""

_PEOPLE_SAY_NO: Final = {
    "ccrs.cc": frozenset({"q06", "q07", "q10", "q17"}),
    "ccrs.qr": frozenset({"q01", "q07", "q10", "q14", "q17", "q24", "q25", "q28", "q29"}),
}
"""The answers that people found not supported by the passages, and not relevant to the question."""

_WEEK_S: Final = 7 * 86_400


def sample_file(name: str) -> str:
    """Return the text of a sample file. It is always the same, except for the times of `spans` and `langfuse`, whose last week ends now.

    Args:
        name: One of `SAMPLE_FILES`.
    """
    return "".join(f"{line}\n" for line in _WRITERS[name]())


def _answers(*, k: int, with_mistakes: bool) -> Iterator[dict[str, Any]]:
    corpus = Bm25(load_corpus())
    for question in load_questions():
        hits = [passage for passage, _ in corpus.search(question.query, k)]
        response = extract_answer(question.query, [passage.text for passage in hits])
        if with_mistakes:
            if question.id in _NOT_RETRIEVED:
                hits = [passage for passage in hits if passage.id not in question.gold]
                response = extract_answer(question.query, [passage.text for passage in hits])
            response = _UNSUPPORTED.get(question.id, response)
        yield {
            "id": question.id,
            "query": question.query,
            "contexts": [{"id": p.id, "text": p.text, "relevance": int(p.id in question.gold)} for p in hits],
            "response": response,
            "reference": question.reference,
        }


_new_answers = partial(_answers, k=4, with_mistakes=True)
_old_answers = partial(_answers, k=1, with_mistakes=False)


def _questions() -> Iterator[dict[str, Any]]:
    for question in load_questions():
        yield {"id": question.id, "query": question.query, "reference": question.reference}


def _labels() -> Iterator[str]:
    yield ",".join(("id", *_PEOPLE_SAY_NO))
    for question in load_questions():
        yield ",".join((question.id, *("no" if question.id in no else "yes" for no in _PEOPLE_SAY_NO.values())))


def _spans() -> Iterator[dict[str, Any]]:
    """One OTLP message a request, in the convention of OpenInference: a week of the old version, then one of the new."""
    now = time.time()
    for release, weeks_ago, answers in (("1.0", 2, _old_answers()), ("2.0", 1, _new_answers())):
        for row, at in _spread(list(answers), now - weeks_ago * _WEEK_S):
            yield _message(release, row, int(at * 1e9))


def _spread(rows: Sequence[dict[str, Any]], start: float) -> Iterator[tuple[dict[str, Any], float]]:
    """Give rows times over a week."""
    return ((row, start + _WEEK_S * (number + 0.5) / len(rows)) for number, row in enumerate(rows))


def _langfuse() -> Iterator[dict[str, Any]]:
    """Write the observations of a week, three a request, with the fields of Langfuse's blob export."""
    for row, at in _spread(list(_new_answers()), time.time() - _WEEK_S):
        yield from _observations(row, at)


def _observations(row: Mapping[str, Any], at: float) -> Iterator[dict[str, Any]]:
    digest = hashlib.sha256(f"langfuse {row['id']}".encode()).hexdigest()
    root, retriever, generation = digest[32:40], digest[40:48], digest[48:56]
    query, response = row["query"], row["response"]
    texts = [passage["text"] for passage in row["contexts"]]
    documents = [{"id": passage["id"], "page_content": passage["text"]} for passage in row["contexts"]]
    prompt = [
        {"role": "system", "content": "\n\n".join(["Answer from these passages:", *texts])},
        {"role": "user", "content": query},
    ]
    reply = {"role": "assistant", "content": response}
    for id_, kind, name, began, ended, given, made in (
        (retriever, "RETRIEVER", "search", 0.01, 0.16, query, _compact(documents)),
        (generation, "GENERATION", "model", 0.2, 1.1, _compact(prompt), _compact(reply)),
        (root, "CHAIN", "ask", 0.0, 1.2, query, response),
    ):
        yield {
            "id": id_,
            "trace_id": digest[:32],
            "type": kind,
            "parent_observation_id": "" if id_ == root else root,
            "name": name,
            "start_time": _utc(at + began),
            "end_time": _utc(at + ended),
            "input": given,
            "output": made,
            "metadata": {"release": "2.0"},
            "level": "DEFAULT",
            "environment": "default",
        }


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _utc(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%d %H:%M:%S.%f}"


def _message(release: str, row: Mapping[str, Any], at_ns: int) -> dict[str, Any]:
    digest = hashlib.sha256(f"{release} {row['id']}".encode()).hexdigest()
    root = {"traceId": digest[:32], "spanId": digest[32:48], "name": "ask"}
    retriever = {"traceId": digest[:32], "spanId": digest[48:], "parentSpanId": digest[32:48], "name": "search"}
    documents = {
        f"retrieval.documents.{number}.document.{key}": passage[field]
        for number, passage in enumerate(row["contexts"])
        for key, field in (("id", "id"), ("content", "text"))
    }
    spans = [
        root | _timed(at_ns, 1_200) | _attributes("CHAIN", row["query"], {"output.value": row["response"]}),
        retriever | _timed(at_ns + 10_000_000, 150) | _attributes("RETRIEVER", row["query"], documents),
    ]
    scope = {"name": "openinference.instrumentation.example"}
    resource = {"attributes": [_attribute("service.name", "handbook"), _attribute("service.version", release)]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}


def _timed(at_ns: int, duration_ms: int) -> dict[str, str]:
    return {"startTimeUnixNano": str(at_ns), "endTimeUnixNano": str(at_ns + duration_ms * 1_000_000)}


def _attributes(kind: str, query: str, others: Mapping[str, str]) -> dict[str, Any]:
    values = {"openinference.span.kind": kind, "input.value": query, **others}
    return {"attributes": [_attribute(key, value) for key, value in values.items()]}


def _attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def _handbook() -> Iterator[str]:
    for passage in load_corpus():
        yield from (f"## {passage.title}", "", passage.text, "")


def _json_lines(rows: Callable[[], Iterator[dict[str, Any]]]) -> Callable[[], Iterator[str]]:
    return lambda: map(_compact, rows())


_WRITERS: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    "answers": _json_lines(_new_answers),
    "old-answers": _json_lines(_old_answers),
    "questions": _json_lines(_questions),
    "labels": _labels,
    "spans": _json_lines(_spans),
    "langfuse": _json_lines(_langfuse),
    "handbook": _handbook,
}

SAMPLE_FILES: Final = tuple(_WRITERS)
"""Names of the sample files."""
