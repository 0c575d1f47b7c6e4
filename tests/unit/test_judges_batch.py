"""Files of a batch: ids of requests, sizes of files, and which of several results counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.judges import RequestBatch, _batch, requests_in_batches, requests_of_sample

PATH = "/chat/completions"


def body(text: str = "q", **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


def result(id_: str, status: int | None, content: object = "fine", **more: Any) -> str:
    choices = [{"message": {"content": content}, "finish_reason": "stop"}]
    response = None if status is None else {"status_code": status, "body": {"choices": choices}}
    return json.dumps({"custom_id": id_, "response": response, **more}) + "\n"


def ids(folder: Path, bodies: list[dict[str, Any]]) -> list[str]:
    with RequestBatch(folder) as batch, requests_in_batches(batch), requests_of_sample() as requests:
        assert requests is not None
        return [requests.id_of(PATH, each) for each in bodies]


def test_equal_requests_have_one_id_if_their_replies_are_equal(tmp_path):
    """Draws without a seed differ, so each needs a result of its own, in every run the same one."""
    fixed = body(temperature=0)
    seeded = body(temperature=1, seed=5)
    drawn = body(temperature=1)
    first = ids(tmp_path, [fixed, fixed, seeded, seeded, drawn, drawn, drawn, body("other", temperature=1)])
    assert first[0] == first[1]
    assert first[2] == first[3]
    assert [f"{first[4]}-2", f"{first[4]}-3"] == first[5:7]
    assert 6 == len(set(first))
    assert first == ids(tmp_path, [fixed, fixed, seeded, seeded, drawn, drawn, drawn, body("other", temperature=1)])


def test_an_id_depends_on_all_of_a_request(tmp_path):
    """Model, texts and settings."""
    bodies = [body(), body("x"), {**body(), "model": "n"}, body(max_tokens=5), body(temperature=0)]
    assert len(bodies) == len(set(ids(tmp_path, bodies)))
    # Not on the order of its fields.
    assert 1 == len({ids(tmp_path, [each])[0] for each in (body(), dict(reversed(body().items())))})


def test_outside_of_a_sample_nothing_is_batched(tmp_path):
    """The preparation of a model sends its requests, and without a batch all are sent."""
    with RequestBatch(tmp_path) as batch, requests_in_batches(batch):
        assert _batch.batched_requests() is None
    with requests_of_sample() as requests:
        assert requests is None


@pytest.mark.parametrize(("limit", "value"), [("_MAX_REQUESTS", 4), ("_MAX_BYTES", 700)])
def test_files_have_a_limited_size(tmp_path, monkeypatch, limit, value):
    """In requests and in bytes, without a request lost or twice, and no name is used again."""
    monkeypatch.setattr(_batch, limit, value)
    with RequestBatch(tmp_path) as batch:
        for i in range(10):
            batch.write(f"{i:064x}", "http://a/v1", PATH, body(str(i)))
    report = batch.report
    assert 10 == report.n_written == sum(file.n_requests for file in report.files)
    assert [path.name for path in sorted(tmp_path.glob("*.jsonl"))] == [file.path.name for file in report.files]
    found = [json.loads(line)["custom_id"] for file in report.files for line in file.path.read_text().splitlines()]
    assert [f"{i:064x}" for i in range(10)] == found
    if limit == "_MAX_REQUESTS":
        assert [4, 4, 2] == [file.n_requests for file in report.files]
    else:
        assert all(file.path.stat().st_size <= value for file in report.files)
        assert 1 < len(report.files) < 10
    # The next run does not use a name again.
    with RequestBatch(tmp_path) as batch:
        batch.write(f"{11:064x}", "http://a/v1", PATH, body("11"))
    assert report.files[-1].path.name < batch.report.files[0].path.name


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_result_counts_before_failures_of_the_same_request(tmp_path, order):
    """Whatever the names of the files. A refusal by the endpoint is a result, but not before a reply."""
    good, bad = order
    kept, refused = "1" * 64, "2" * 64
    (tmp_path / f"{good}.jsonl").write_text(result(kept, 200) + result(refused, 200))
    (tmp_path / f"{bad}.jsonl").write_text(result(kept, None, error={"code": "x"}) + result(refused, 400))
    with RequestBatch(tmp_path) as batch:
        assert [200, 200] == [reply.status for id_ in (kept, refused) if (reply := batch.result(id_)) is not None]
        assert batch.result("3" * 64) is None
    assert (2, 1) == (batch.report.n_results, batch.report.n_failed)


def test_a_request_waits_as_often_as_it_was_written_more_than_it_failed(tmp_path):
    """Each failed result allows one more request."""
    id_ = "a" * 64
    for n in range(1, 4):
        with RequestBatch(tmp_path) as batch:
            assert not batch.is_written(id_)
            batch.write(id_, "http://a/v1", PATH, body())
            assert batch.is_written(id_)
        with RequestBatch(tmp_path) as batch:
            assert batch.is_written(id_)
            assert 1 == batch.report.n_waiting
        (tmp_path / f"failed-{n}.jsonl").write_text(result(id_, 503))
    (tmp_path / "good.jsonl").write_text(result(id_, 200))
    with RequestBatch(tmp_path) as batch:
        assert batch.result(id_) is not None


def test_a_file_of_results_that_changes_is_not_an_answer(tmp_path):
    """The place of a result may hold other text by the time it is read."""
    (tmp_path / "r.jsonl").write_text(result("a" * 64, 200))
    with RequestBatch(tmp_path) as batch:
        (tmp_path / "r.jsonl").write_text("x" * 400)
        assert batch.result("a" * 64) is None


def test_a_line_without_an_end_is_bounded(tmp_path, monkeypatch):
    """Its pieces are not results, and the next line is."""
    monkeypatch.setattr(_batch, "_MAX_LINE", 1000)
    (tmp_path / "r.jsonl").write_text(result("b" * 64, 200, "x" * 5000) + result("a" * 64, 200))
    with RequestBatch(tmp_path) as batch:
        assert batch.result("b" * 64) is None
        assert batch.result("a" * 64) is not None
    assert batch.report.n_ignored >= 1


def test_texts_with_lone_surrogates(tmp_path):
    """And with characters that some programs take for the end of a line."""
    with RequestBatch(tmp_path) as batch:
        batch.write("a" * 64, "http://a/v1", PATH, body("\ud800\u2028x"))
    [line] = batch.report.files[0].path.read_bytes().splitlines()
    assert "\ud800\u2028x" == json.loads(line)["body"]["messages"][0]["content"]
