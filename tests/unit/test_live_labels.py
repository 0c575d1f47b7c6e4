"""The page on which people label answers: blind, one label for each author, only for drawn requests."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from live_store import make_store
from ragstone.experiments import FollowedReport, TimeRange
from ragstone.live._labels import LabelDesk
from ragstone.store import DrawnRequest, SqliteStore, StoredCase
from served_app import client_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of which three requests are drawn: t4, t1 and t2."""
    path = make_store(tmp_path / "s.db", 8)
    with SqliteStore.open(path, mode="own") as store:
        store.labels.save([DrawnRequest(f"t{k}", 0.5, {4: 0, 1: 1, 2: 2}.get(k)) for k in range(8)])
    return path


def ask(path: Path, *requests: tuple[str, Any]) -> list[httpx.Response]:
    """The responses to GET requests (with parameters) and POST requests (with JSON or bytes)."""
    report = FollowedReport(TimeRange(path), targets={})
    desk = LabelDesk(path, report, title="a <store>", author="me")

    async def run() -> list[httpx.Response]:
        app = web.Application()
        app.add_routes(desk.routes)
        async with client_of(app) as client:
            found = []
            for method, content in requests:
                if method == "draw":
                    found.append(await client.post("/label/draw", params={"n": content}))
                elif method == "POST":
                    body = content if isinstance(content, bytes) else json.dumps(content).encode()
                    found.append(await client.post("/label", content=body))
                else:
                    found.append(await client.get("/label/item", params=content))
            return found

    return asyncio.run(run())


def about(response: httpx.Response) -> dict[str, Any]:
    """What the script reads."""
    assert 200 == response.status_code, response.text
    found: dict[str, Any] = json.loads(response.headers["X-Label"])
    return found


def test_scores_are_hidden_until_a_label_is_saved(path: Path):
    """Question, answer, reference and passages are shown; scores, marks, verdict and judge only afterwards."""
    before, after = ask(
        path, ("GET", {"author": "ann", "n": 0}), ("POST", {"trace_id": "t4", "author": "ann", "value": 0.5})
    )
    for text in ("When does ferry 4 leave?", "It costs 4 crowns.", "At ten.", "The ferry leaves at nine. 4 2"):
        assert text in before.text
        assert text in after.text
    for text in ("Answer correctness", "0.10", "unsupported", "relevant", "judge"):
        assert text not in before.text.replace("irrelevant", "")
    assert "Answer correctness" in after.text
    assert "<b>Partly</b>" in after.text
    with SqliteStore.open(path, mode="read") as store:
        assert [("t4", "ann", 0.5)] == [label[:3] for label in store.labels.read()]


def test_the_order_is_that_of_the_draw(path: Path):
    """It starts at the first answer without a label of the author, and stops at the ends."""
    first, saved, start, other, end = ask(
        path,
        ("GET", {"author": "ann"}),
        ("POST", {"trace_id": "t4", "author": " ann ", "value": 1}),
        ("GET", {"author": "ann"}),
        ("GET", {"author": "bob"}),
        ("GET", {"author": "ann", "n": 99}),
    )
    assert {"position": 0, "total": 3, "trace_id": "t4", "value": None, "labeled": 0} == about(first)
    assert {"position": 0, "total": 3, "trace_id": "t4", "value": 1.0, "labeled": 1} == about(saved)
    assert (1, "t1", 1) == (about(start)["position"], about(start)["trace_id"], about(start)["labeled"])
    assert (0, None, 0) == (about(other)["position"], about(other)["value"], about(other)["labeled"])
    assert (2, "t2") == (about(end)["position"], about(end)["trace_id"])


def test_undo_removes_the_label_of_its_author_only(path: Path):
    """And the answer is blind again."""
    *_, undone = ask(
        path,
        ("POST", {"trace_id": "t1", "author": "ann", "value": 1}),
        ("POST", {"trace_id": "t1", "author": "bob", "value": 0}),
        ("POST", {"trace_id": "t1", "author": "ann", "value": None}),
    )
    assert about(undone)["value"] is None
    assert "Answer correctness" not in undone.text
    with SqliteStore.open(path, mode="read") as store:
        assert [("t1", "bob", 0.0)] == [label[:3] for label in store.labels.read()]


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"{", 400, "needs trace_id, author and value"),
        (b"[]", 400, "needs trace_id"),
        ({"trace_id": "t4", "author": "ann"}, 400, "needs trace_id"),
        ({"trace_id": "t0", "author": "ann", "value": 1}, 400, "was not drawn"),
        ({"trace_id": ["t4"], "author": "ann", "value": 1}, 400, "was not drawn"),
        ({"trace_id": "t4", "author": " ", "value": 1}, 400, "Enter your name"),
        ({"trace_id": "t4", "author": "a" * 101, "value": 1}, 400, "Enter your name"),
        ({"trace_id": "t4", "author": "ann", "value": 2}, 400, "from 0 to 1"),
        ({"trace_id": "t4", "author": "ann", "value": True}, 400, "from 0 to 1"),
        (b'{"trace_id": "t4", "author": "ann", "value": NaN}', 400, "from 0 to 1"),
        (b" " * 200_000, 413, "too large"),
    ],
)
def test_invalid_labels_are_refused(path: Path, body: Any, status: int, text: str):
    """And nothing is saved."""
    (response,) = ask(path, ("POST", body))
    assert (status, True) == (response.status_code, text in response.text)
    with SqliteStore.open(path, mode="read") as store:
        assert [] == store.labels.read()


def test_without_a_draw(tmp_path: Path):
    """The page has nothing to show until some are drawn, with the probabilities of all scored requests."""
    path = make_store(tmp_path / "s.db", 8)
    empty, drawn, first = ask(path, ("GET", {"author": "ann"}), ("draw", "3"), ("GET", {"author": "ann"}))
    assert ("", 0) == (empty.text, about(empty)["total"])
    with SqliteStore.open(path, mode="read") as store:
        requests = store.labels.drawn()
    places = [request.trace_id for request in requests if request.position is not None]
    assert f"{len(places)} of 8 scored requests drawn, {len(places)} in all draws." == drawn.text
    assert (len(places), True) == (about(first)["total"], about(first)["trace_id"] in places)
    assert 8 == len(requests)
    assert all(0 < request.probability < 1 for request in requests)
    assert 3 == pytest.approx(sum(request.probability for request in requests))


@pytest.mark.parametrize("n", ["", "0", "-1", "1.5", "10001", "9" * 50, "٣", "<b>"])
def test_an_invalid_number_draws_nothing(path: Path, n: str):
    """The message names the value and the limits."""
    (response,) = ask(path, ("draw", n))
    assert 400 == response.status_code
    assert "must be from 1 to 10,000, got" in response.text
    with SqliteStore.open(path, mode="read") as store:
        assert 3 == sum(request.position is not None for request in store.labels.drawn())


def test_requests_without_a_score_are_not_drawn(tmp_path: Path):
    """The message says so."""
    (response,) = ask(make_store(tmp_path / "s.db", 2, scored=False), ("draw", "1"))
    assert (400, True) == (response.status_code, "does not contain scores" in response.text)


def test_the_name_of_the_author_is_text(path: Path):
    """Also if it has the characters of markup."""
    desk = LabelDesk(path, FollowedReport(TimeRange(path), targets={}), title="<s>", author='"')
    assert 'value="&quot;"' in desk._document.text


def test_a_store_that_cannot_be_read(path: Path):
    """Is named."""
    path.write_bytes(b"no store")
    (response,) = ask(path, ("GET", {"author": "ann"}))
    assert (503, True) == (response.status_code, "is not a Ragstone store" in response.text)


def test_a_label_saves_the_correct_answer_and_the_relevant_passages(path: Path):
    """Both are shown again, and a label without them removes them. No passage may be relevant."""
    label = {"trace_id": "t4", "author": "ann", "value": 0}
    saved, none, without = ask(
        path,
        ("POST", label | {"correction": " At <ten>. ", "relevant": [3, 1]}),
        ("POST", label | {"relevant": []}),
        ("POST", label),
    )
    assert 'maxlength="20000">At &lt;ten&gt;.</textarea>' in saved.text
    assert [True, False, True, False] == checked(saved.text)
    assert [False, False, False, True] == checked(none.text)
    assert [False, False, False, False] == checked(without.text)
    with SqliteStore.open(path, mode="read") as store:
        assert [("t4", "ann", 0.0, None, None)] == [(*each[:3], *each[4:]) for each in store.labels.read()]


def checked(text: str) -> list[bool]:
    """Whether each box of a passage is checked, and the one of no passage."""
    return [" checked" in box for box in text.split("<input")[1:]]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"correction": 5}, "a correction must be a text"),
        ({"relevant": [0]}, "relevant must be a list of positions"),
        ({"relevant": "1"}, "relevant must be a list of positions"),
        ({"relevant": [True]}, "relevant must be a list of positions"),
    ],
)
def test_an_invalid_correction_is_refused(path: Path, fields: dict[str, Any], message: str):
    """Nothing is saved."""
    (response,) = ask(path, ("POST", {"trace_id": "t4", "author": "ann", "value": 0} | fields))
    assert (400, True) == (response.status_code, message in response.text)
    with SqliteStore.open(path, mode="read") as store:
        assert [] == store.labels.read()


def test_cases_follow_the_drawn_requests(path: Path):
    """The requests of a file of cases are labeled after the drawn ones, each once."""
    with SqliteStore.open(path, mode="own") as store:
        store.labels.save([StoredCase("/a.jsonl", id_) for id_ in ("t0", "t4")])
    fourth, saved = ask(
        path, ("GET", {"author": "ann", "n": 3}), ("POST", {"trace_id": "t0", "author": "a", "value": 1})
    )
    assert ("t0", 4, "t0") == (about(fourth)["trace_id"], about(fourth)["total"], about(saved)["trace_id"])
