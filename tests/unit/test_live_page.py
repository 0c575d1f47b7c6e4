"""The live page: the numbers of the report, rebuilt only when something changed, with every problem on the page."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

import served_app
from command_line import run_command
from live_store import add_requests, make_store
from ragstone.errors import ConfigurationError, StoreError
from ragstone.experiments import FollowedReport, TimeRange, build_report, choose_cases
from ragstone.live._app import _events, make_app
from ragstone.live._board import Board
from ragstone.live._labels import LabelDesk
from ragstone.live._questions import find_questions
from ragstone.store import PlannedMetric, SqliteStore, open_store
from ragstone.views import format_interval, format_mean
from watched_store import DAY_S, fold_at, make


class Clock:
    """A clock that only moves when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def wait(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def board_of(path: Path, clock: Clock | None = None) -> Board:
    """A board of a store."""
    clock = clock or Clock()
    report = FollowedReport(TimeRange(path), targets={})
    return Board(
        report,
        title="a store",
        command="ragstone view a.db",
        wait=clock.wait,
        clock=clock,
    )


def desk_of(board: Board) -> LabelDesk:
    """The page to label answers of the same store."""
    report = board.report
    return LabelDesk(report.period.store, report, title="a store", author="me", draw="ragstone labels draw a.db")


def client_of(board: Board) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    """A client of the application of a board."""
    return served_app.client_of(make_app(board, desk_of(board)))


def run(test: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine."""
    return asyncio.run(test())


def comparable(report: FollowedReport) -> dict[str, Any]:
    """The report as plain values."""
    assert report.view is not None
    return report.view.to_dict()


def test_a_followed_report_is_the_report_of_the_whole_store(tmp_path: Path):
    """After each addition, and whatever came first: request or score."""
    path = make_store(tmp_path / "s.db", 20)
    report = FollowedReport(TimeRange(path), targets={})
    assert report.refresh()
    assert not report.refresh()
    for step in range(3):
        with SqliteStore.open(path, mode="own") as store:
            add_requests(store, 20 + 10 * step, 7)
            add_requests(store, 27 + 10 * step, 3, scored=False)
        assert report.refresh()
        fresh = FollowedReport(TimeRange(path), targets={})
        fresh.refresh()
        assert comparable(fresh) == comparable(report)
        whole = build_report(str(path)).to_dict()
        assert whole["verdict"] == comparable(report)["verdict"]
        assert whole["metrics"] == comparable(report)["metrics"]
    assert [f"t{k}" for k in (44, 40, 36)] == [answer.id for answer in report.latest][:3]


def test_another_plan_or_file_starts_again(tmp_path: Path):
    """Scores of an older version, and of a file that is gone, are not mixed in."""
    path = make_store(tmp_path / "s.db", 20)
    report = FollowedReport(TimeRange(path), targets={})
    report.refresh()
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name="ccrs.ac", version="2", judge_hash="h")], [])
    report.refresh()
    assert report.view is not None
    assert {"ragas.faithfulness", "ccrs.qr"} == {row.name for row in report.view.metrics}
    make_store(tmp_path / "other.db", 30).replace(path)
    report.refresh()
    assert report.view is not None
    assert 30 == report.view.n_samples


def test_the_page_shows_the_numbers_of_the_report(tmp_path: Path):
    """Mean, interval and verdict, and the counts of requests."""
    path = make_store(tmp_path / "s.db", 40)
    view = build_report(str(path))

    async def body() -> httpx.Response:
        async with client_of(board_of(path)) as client:
            return await client.get("/")

    response = run(body)
    assert 200 == response.status_code
    for row in view.metrics:
        assert row.estimate is not None
        assert format_mean(row.estimate) in response.text
        assert format_interval(row.estimate) in response.text
    assert view.verdict[0].text.partition(" (")[0] in response.text
    assert "<b>40</b>" in response.text
    assert "connect-src 'self'" in response.headers["content-security-policy"]


def test_changes_are_sent_once_and_by_name(tmp_path: Path):
    """A browser hears the names of the parts that changed since the revision that it has, also after an interruption."""
    path = make_store(tmp_path / "s.db", 20)
    clock = Clock()
    board = board_of(path, clock)

    async def body() -> None:
        await board.update()
        first = board.revision
        assert [] == board.changed_since(first)
        assert {"verdict", "scores", "all", "rows"} <= set(board.changed_since(""))
        assert set(board.changed_since("")) == set(board.changed_since("other-9"))
        with SqliteStore.open(path, mode="own") as store:
            add_requests(store, 20, 1)
        stop = asyncio.Event()
        stream = _events(board, first, stop)
        assert "retry: 2000\n\n" == await anext(stream)
        following = asyncio.create_task(board.run())
        clock.now += 1000
        event = await anext(stream)
        names = json.loads(event.partition("data: ")[2])
        assert f"id: {board.revision}\n" in event
        assert {"verdict", "counts", "rows"} <= set(names)
        assert "problem" not in names
        waiting = asyncio.ensure_future(anext(stream, None))
        await asyncio.sleep(0)
        stop.set()
        assert await waiting is None
        following.cancel()

    run(body)


def test_updates_are_rare_and_only_if_the_store_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """At most one in two seconds, fewer if each is much work, and a store without changes is not read."""
    path = make_store(tmp_path / "s.db", 10)
    clock = Clock()
    board = board_of(path, clock)
    refreshed: list[bool] = []
    refresh = board.report.refresh
    cpu = iter(range(0, 1000, 3))
    monkeypatch.setattr("ragstone.live._board.time.process_time", lambda: 0.0)

    def counted() -> bool:
        refreshed.append(refresh())
        return refreshed[-1]

    board.report.refresh = counted  # type: ignore[method-assign]

    async def body() -> None:
        await board.update()
        clock.now = 1.9
        await board.update()
        assert [True] == refreshed
        clock.now = 2.0
        await board.update()
        assert [True, False] == refreshed
        assert board.revision.endswith("-1")
        monkeypatch.setattr("ragstone.live._board.time.process_time", lambda: float(next(cpu)))
        clock.now = 5.0
        await board.update()
        clock.now = 204.9  # 3 s of work are 1.5% of 200 s
        await board.update()
        assert 3 == len(refreshed)
        clock.now = 205.1
        await board.update()
        assert 4 == len(refreshed)

    run(body)


def test_a_problem_is_shown_above_the_last_numbers(tmp_path: Path):
    """If the store cannot be read, the page says so, keeps what it has, and recovers."""
    path = make_store(tmp_path / "s.db", 10)
    clock = Clock()
    board = board_of(path, clock)

    async def body() -> None:
        await board.update()
        refresh = board.report.refresh

        def locked() -> bool:
            raise StoreError("the store <s.db> has been locked")

        board.report.refresh = locked  # type: ignore[method-assign]
        clock.now = 1000.0
        await board.update()
        assert "the store &lt;s.db&gt; has been locked" in board.parts["problem"]
        assert "judged wrong" in board.parts["verdict"]
        board.report.refresh = refresh  # type: ignore[method-assign]
        revision = board.revision
        clock.now = 2000.0
        await board.update()
        assert ["problem"] == board.changed_since(revision)
        assert "" == board.parts["problem"]

    run(body)


def test_an_alarm_appears_above_the_verdict_and_goes(tmp_path: Path):
    """Although no score was added: with its text, its slice and the commands, and the app's name as text."""
    start = time.time() - 11.6 * DAY_S
    path = make(tmp_path / "s.db", start, folds=(), app="<b>bot")
    clock = Clock()
    board = board_of(path, clock)

    async def body() -> None:
        await board.update()
        assert "alarms" not in board.parts
        revision = board.revision
        with open_store(path, mode="own", clock=time.time) as store:
            fold_at(store, start + 11.5 * DAY_S)
        clock.now = 1000.0
        await board.update()
        assert {"alarms", "rows"} == set(board.changed_since(revision))
        part = board.parts["alarms"]
        assert "ALARM 1 · &lt;b&gt;bot · Question relevance (ccrs.qr) fell by about" in part
        for text in ("release=2.4.1: -", "ragstone traces a.db --alarm 1", "<dt>since</dt>"):
            assert text in part
        page = board.document().text
        assert page.index("part-alarms") < page.index("part-verdict")
        assert 0 == run_command("watch", path, "--accept", "1").returncode
        clock.now = 2000.0
        await board.update()
        assert "" == board.parts.get("alarms", "")

    run(body)


@pytest.mark.parametrize(("n", "text"), [(0, "No requests yet."), (3, "3 requests are captured")])
def test_without_scores_the_page_says_what_is_there(tmp_path: Path, n: int, text: str):
    """An empty store, and requests without scores; the first score makes it a report."""
    path = make_store(tmp_path / "s.db", n, scored=False)
    clock = Clock()
    board = board_of(path, clock)

    async def body() -> None:
        async with client_of(board) as client:
            page = (await client.get("/")).text
            assert text in page
            assert (f"ragstone worker {path} --until-idle --metrics=" in page) == bool(n)
            assert "" == (await client.get("/questions")).text
            with SqliteStore.open(path, mode="own") as store:
                add_requests(store, 10, 5)
            clock.now = 1000.0
            assert "judged wrong" in (await client.get("/")).text

    run(body)


def test_a_store_without_tables_is_waited_for(tmp_path: Path):
    """Its owner has made the file and not yet the tables."""
    path = tmp_path / "s.db"
    path.touch()
    clock = Clock()
    board = board_of(path, clock)

    async def body() -> None:
        await board.update()
        assert "not initialized it yet" in board.parts["problem"]
        make_store(path, 5)
        clock.now = 1000.0
        await board.update()
        assert "judged wrong" in board.parts["verdict"]
        assert "" == board.parts.get("problem", "")

    run(body)


def test_questions_are_searched_filtered_ordered_and_paged(tmp_path: Path):
    """As the page of a file does it, with the parameters of a request; invalid ones are ignored."""
    report = FollowedReport(TimeRange(make_store(tmp_path / "s.db", 40)), targets={})
    report.refresh()
    view = report.view
    assert view is not None

    def ids(**query: str) -> list[str]:
        rows = find_questions(view, query).rows
        return [part.partition("</span>")[0] for part in rows.split('<span class="id">')[1:]]

    wrong = {f"t{k}" for k in range(0, 40, 4)}
    assert wrong == set(ids(cause="wrong"))
    assert 10 == find_questions(view, {"cause": "wrong", "n": "3"}).n
    assert ids(cause="wrong")[3:6] == ids(cause="wrong", offset="3", n="3")
    assert ["t17"] == ids(search="FERRY 17")
    assert 40 == len(ids(order="99", n="x", offset="-1", cause=""))
    metric = [row.name for row in view.metrics].index("ccrs.qr")
    values = [int(id_[1:]) % 7 for id_ in ids(order=str(metric))]
    assert sorted(values) == values
    rows = [replace(row, lower_is_better=True) if n == metric else row for n, row in enumerate(view.metrics)]
    lower = find_questions(replace(view, metrics=tuple(rows)), {"order": str(metric)}).rows
    worst_first = [int(part.partition("</span>")[0][1:]) % 7 for part in lower.split('<span class="id">')[1:]]
    assert sorted(values, reverse=True) == worst_first
    assert [] == ids(cause="no such cause")
    first = find_questions(view, {"order": str(metric), "n": "1"}).rows
    assert 'class="value number bad">0.00' in first
    assert 'class="value number">' in find_questions(view, {"search": "ferry 6"}).rows
    assert 3 == first.count("value")
    fares = {f"t{k}" for k in range(0, 40, 2)}
    assert fares == set(ids(label="topic=fares"))
    assert wrong & fares == set(ids(label="topic=fares", cause="wrong"))
    assert [] == ids(label="topic=boats")


def test_one_answer(tmp_path: Path):
    """With its evidence; an unknown id is not found."""
    path = make_store(tmp_path / "s.db", 4)

    async def body() -> None:
        async with client_of(board_of(path)) as client:
            found = await client.get("/answer", params={"id": "t0"})
            assert "It costs 0 crowns." in found.text
            assert 'id="heading"' in found.text
            assert 404 == (await client.get("/answer", params={"id": "<b>"})).status_code
            path.write_bytes(b"no store")
            damaged = await client.get("/answer", params={"id": "t0"})
            assert 503 == damaged.status_code
            assert "is not a Ragstone store" in damaged.text

    run(body)


def test_only_parts_of_the_page_are_sent(tmp_path: Path):
    """In the order of the question, each in its place; other names are ignored."""
    path = make_store(tmp_path / "s.db", 8)

    async def body() -> str:
        board = board_of(path)
        await board.update()
        async with client_of(board) as client:
            return (await client.get("/parts?name=counts&name=%3Cb%3E&name=verdict&name=problem")).text

    text = run(body)
    assert text.startswith('<div id="part-counts"><section')
    assert '<div id="part-verdict"><section' in text
    assert text.endswith('<div id="part-problem"></div>')
    assert "<b>Next" in text
    assert "&lt;b&gt;" not in text


def test_a_wrong_target_is_an_error_at_the_start(tmp_path: Path):
    """Before anything is served."""
    report = FollowedReport(TimeRange(make_store(tmp_path / "s.db", 8)), targets={"ccrs.ac": 7.0})
    with pytest.raises(ConfigurationError, match=r"the target of ccrs\.ac must be a value from 0 to 1"):
        report.refresh()


def test_the_worst_failures_are_downloaded_as_cases(tmp_path: Path):
    """The rows are those of `labels cases`, and a wrong condition is an error."""
    path = make_store(tmp_path / "s.db", 12)

    async def test() -> None:
        async with client_of(board_of(path)) as client:
            assert 'href="cases?worst=50"' in (await client.get("/")).text
            found = await client.get("/cases?worst=2")
            assert 'attachment; filename="cases.jsonl"' == found.headers["Content-Disposition"]
            assert "".join(choose_cases(path, worst=2).lines()) == found.text
            drawn = await client.get("/cases", params={"where": "topic=times"})
            assert 6 == len(drawn.text.splitlines())
            wrong = await client.get("/cases", params={"where": "cause=x"})
            assert (400, True) == (wrong.status_code, "unknown cause 'x'" in wrong.text)

    run(test)
