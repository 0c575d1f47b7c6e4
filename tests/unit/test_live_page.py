"""The live page: the numbers of the report, rebuilt only when something changed, with every problem on the page."""

from __future__ import annotations

import asyncio
import csv
import json
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

import served_app
from command_line import run_command
from completions import complete
from live_store import add_requests, make_store, make_trace
from ragstone.errors import ConfigurationError, StoreError
from ragstone.experiments import FollowedReport, TimeRange, build_report, choose_cases, find_worst
from ragstone.live._app import _events, make_app
from ragstone.live._board import Board, _alarm_view
from ragstone.live._labels import LabelDesk
from ragstone.live._questions import find_questions
from ragstone.schema import Captured, Passage, Retrieval, Score, Usage
from ragstone.store import PlannedMetric, SqliteStore, open_store
from ragstone.views import ReportView, format_interval, format_mean
from ragstone.watch import all_alarms
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
    return LabelDesk(report.period.store, report, title="a store", author="me")


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


def test_removed_requests_are_not_lost(tmp_path: Path):
    """The report and the page name those that have expired, and count none as dropped before it was stored."""
    path = make_store(tmp_path / "s.db", 12)
    with SqliteStore.open(path, mode="own") as store:
        assert 3 == store.upkeep.remove_requests(before=make_trace(3).started_at)
    texts = [notice.text for notice in build_report(str(path)).notices]
    assert "3 expired requests are not in the report." in texts
    assert not any("dropped" in text for text in texts)
    board = board_of(path)
    run(board.update)
    assert "<dt>Lost</dt><dd><b>0</b><small>3 expired, the counts add up</small>" in board.parts["counts"]


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


def test_an_alarm_appears_above_the_verdict_and_is_folded_once_it_is_closed(tmp_path: Path):
    """Although no score was added: with its text, its slice, a link to its requests, and the app's name as text."""
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
        (link,) = re.findall(r'href="\./\?([^"]*)#all"', part)
        query = dict(httpx.QueryParams(link.replace("&amp;", "&")))
        assert ("ccrs.qr", 'app="<b>bot"') == (query["sort"], query["where"])
        assert board.report.view is not None
        assert 0 < len(find_questions(board.report.view, query).rows) < board.report.view.n_samples
        assert "<details" not in part
        assert 'data-query="number=1&amp;action=accept"' in part
        page = board.document().text
        assert page.index("part-alarms") < page.index("part-verdict")
        assert 0 == run_command("watch", path, "--accept", "1").returncode
        clock.now = 2000.0
        await board.update()
        assert "<details><summary><h2>ALARM 1" in board.parts["alarms"]
        assert "<dt>accepted</dt>" in board.parts["alarms"]
        assert "<button" not in board.parts["alarms"]

    run(body)


def test_an_alarm_links_to_requests_that_the_page_can_find(tmp_path: Path):
    """Those of failures are not scored, and feedback is not a column. A muted alarm says so."""
    path = make(tmp_path / "s.db", time.time() - 11.6 * DAY_S)
    with open_store(path, mode="read") as store, store.watch.read() as tables:
        (alarm,) = all_alarms(tables)
    feedback = replace(alarm, key=alarm.key._replace(app="", metric="feedback", version=""))
    failures = replace(alarm, kind="failures", scale=(0.0, 1.0, False), muted_until=time.time() + 1000)
    _, view = followed(path)
    links = []
    for each in (feedback, failures):
        shown = _alarm_view(each, "a.db", ["ccrs.qr", "not_scored"], ["app"])
        query = dict(httpx.QueryParams(shown.address.removeprefix("./?").removesuffix("#all")))
        links.append((query["sort"], query.get("where"), query.get("cause")))
        find_questions(view, query)
        assert (each is failures) == any(name == "muted" and text.startswith("until ") for name, text in shown.lines)
    assert [("time", None, None), ("time", 'app="qa-bot"', "not_scored")] == links


def test_an_alarm_is_accepted_or_muted_on_the_page(tmp_path: Path):
    """At once, or by the worker that owns the store; a closed or unknown alarm is an error."""
    start = time.time() - 11.6 * DAY_S
    path = make(tmp_path / "s.db", start)

    async def ask(**query: str) -> tuple[int, str]:
        async with client_of(board_of(path)) as client:
            response = await client.post("/alarm", params=query)
            return response.status_code, response.text

    def alarms() -> list[tuple[str, bool]]:
        with open_store(path, mode="read") as store, store.watch.read() as tables:
            return [(alarm.state, alarm.is_muted(time.time())) for alarm in all_alarms(tables)]

    def muted() -> tuple[int, str]:
        return run(partial(ask, number="1", action="mute"))

    assert [("open", False)] == alarms()
    assert (200, "alarm 1: mute done") == muted()
    assert [("open", True)] == alarms()
    with open_store(path, mode="own"):
        status, text = run(partial(ask, number="1", action="accept"))
        assert (200, True) == (status, text.startswith("alarm 1: accept requested. The worker of "))
    assert [("open", True)] == alarms()
    assert (200, "alarm 1: accept done") == run(partial(ask, number="1", action="accept"))
    assert [("accepted", True)] == alarms()
    assert (400, "alarm 1 is not open: it was accepted.") == muted()
    assert (400, True) == (
        run(partial(ask, number="7", action="mute"))[0],
        "only alarm 1" in run(partial(ask, number="7", action="mute"))[1],
    )
    for query in (
        {"number": "1"},
        {"number": "1", "action": "close"},
        {"action": "mute"},
        {"number": "x", "action": "mute"},
    ):
        assert 400 == run(partial(ask, **query))[0]


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


def found_ids(view: ReportView, **query: str) -> list[str]:
    """The ids of the rows of a page, in order."""
    return re.findall(r'class="id">([^<]*)<', find_questions(view, query).page(query))


def followed(path: Path) -> tuple[FollowedReport, ReportView]:
    """The report of a store, and what it shows."""
    report = FollowedReport(TimeRange(path), targets={})
    report.refresh()
    assert report.view is not None
    return report, report.view


def test_questions_are_searched_filtered_ordered_and_paged(tmp_path: Path):
    """By the parameters of a request."""
    _, view = followed(make_store(tmp_path / "s.db", 40))
    ids = partial(found_ids, view)
    wrong = {f"t{k}" for k in range(0, 40, 4)}
    assert wrong == set(ids(cause="wrong"))
    assert 10 == len(find_questions(view, {"cause": "wrong", "n": "3"}).rows)
    assert ids(cause="wrong")[3:6] == ids(cause="wrong", offset="3", n="3")
    assert ["t17"] == ids(search="FERRY 17")
    assert 40 == len(ids(n="x", offset="-1", cause=""))
    assert [] == ids(cause="no such cause")
    values = [int(id_[1:]) % 7 for id_ in ids(sort="ccrs.qr")]
    assert sorted(values) == values
    highest = [int(id_[1:]) % 7 for id_ in ids(sort="-ccrs.qr")]
    assert sorted(values, reverse=True) == highest
    assert ["t39", "t38"] == ids(sort="-time", n="2")
    assert ids() == ids(sort="score")
    first = find_questions(view, {"sort": "ccrs.qr"}).page({"n": "1"})
    assert 'class="value number bad">0.00' in first
    assert 3 == first.count("value")
    with pytest.raises(ConfigurationError, match=r"cannot sort by 'nope'\. Columns: score, time, "):
        ids(sort="-nope")


def test_values_that_are_missing_are_last_in_both_orders(tmp_path: Path):
    """A request without a score is neither the best nor the worst."""
    path = make_store(tmp_path / "s.db", 10)
    with SqliteStore.open(path, mode="own") as store:
        add_requests(store, 10, 2, scored=False)
    _, view = followed(path)
    for sort in ("score", "-score", "ccrs.qr", "-ccrs.qr"):
        assert {"t10", "t11"} == set(found_ids(view, sort=sort)[-2:])


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("topic=fares", range(0, 40, 2)),
        ('topic="fares" and ccrs.ac<0.5', range(0, 40, 4)),
        ("topic~AR and ragas.faithfulness=0", range(0, 40, 6)),
        ("cause=none and topic=times", [k for k in range(1, 40, 2) if k % 3]),
        ("name=ask and topic!=fares", range(1, 40, 2)),
    ],
)
def test_conditions_select_by_any_label_score_and_cause(tmp_path: Path, where: str, numbers: Sequence[int]):
    """As `--where` of the commands, whose answers are compared."""
    path = make_store(tmp_path / "s.db", 40)
    _, view = followed(path)
    assert {f"t{k}" for k in numbers} == set(found_ids(view, where=where))
    assert {answer.id for answer in find_worst(path, n=100, where=where)} == set(found_ids(view, where=where))


def test_times_select_from_the_first_up_to_before_the_second(tmp_path: Path):
    """In UTC, as dates, times or before now, together with conditions."""
    _, view = followed(make_store(tmp_path / "s.db", 40))  # t0 is at 2023-11-14 22:13:20, and one follows each minute
    ids = partial(found_ids, view)
    assert [f"t{k}" for k in range(7, 12)] == ids(sort="time", since="2023-11-14T22:20:20", until="2023-11-14T22:25:20")
    assert 40 == len(ids(since="2023-11-14", until="2023-11-15"))
    assert [] == ids(since="-7d")
    assert {"t7", "t9"} == set(ids(since="2023-11-14T22:20", until="2023-11-14T22:23", where="topic=times"))
    for given in ("yesterday", "2023-13-01"):
        with pytest.raises(ConfigurationError, match=f"invalid time {given!r}"):
            ids(since=given)


def test_a_filter_is_compared_with_all(tmp_path: Path):
    """The share of wrong answers and each mean, with intervals and numbers; without a filter, nothing is compared."""
    report, view = followed(make_store(tmp_path / "s.db", 40))
    selected = find_questions(view, {"where": "topic=fares"}).selected
    assert selected is not None
    (name, some, whole), *means = report.estimate(view, selected)
    assert some is not None
    assert whole is not None
    assert ("Wrong answers", 0.5, 20, 0.25, 40) == (name, some.value, some.n, whole.value, whole.n)
    assert some.low < 0.5 < some.high
    assert [(row.title, row.estimate) for row in view.metrics] == [(title, of_all) for title, _, of_all in means]
    correctness = next(part for title, part, _ in means if title == "Answer correctness")
    assert correctness is not None
    assert 0.5 == pytest.approx(correctness.value)
    assert [] == report.estimate(replace(view), selected)
    assert find_questions(view, {"search": "ferry"}).selected is None
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        add_requests(store, 40, 8, scored=False)
    report.refresh()
    (_, part, of_all), *_ = report.estimate(report.view, [*selected, *range(40, 48)])
    assert ((0.5, 20), (0.25, 40)) == ((part.value, part.n), (of_all.value, of_all.n)), "not judged, so not counted"
    view = report.view
    nobody = report.estimate(view, [])
    assert {None} == {part for _, part, _ in nobody}


def test_a_filter_of_sampled_requests_is_weighted(tmp_path: Path):
    """With the probabilities of the selected requests."""
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        store.plan.set([PlannedMetric(name="ccrs.qr", version="1", judge_hash="")], [])
        for k in range(40):
            trace = make_trace(k).model_copy(update={"inclusion_probability": 0.1 if k < 20 else 1.0})
            store.traces.ingest("test", k + 1, [Captured(trace=trace)])
            value = k / 40
            complete(
                store,
                f"t{k}",
                [Score(sample_id=f"t{k}", metric="ccrs.qr", metric_version="1", value=value, method="x")],
            )
    report, view = followed(tmp_path / "s.db")
    rows = [5, 25, 30, 35]
    (part,) = [some for title, some, _ in report.estimate(view, rows) if title == "Question relevance"]
    assert part is not None
    assert (5 / 4 + 25 / 40 + 30 / 40 + 35 / 40) / 13 == pytest.approx(part.value)


def test_the_rows_of_a_filter_come_with_its_numbers(tmp_path: Path):
    """In the response for the table, which a search alone does not add them to."""
    path = make_store(tmp_path / "s.db", 40)

    async def body() -> list[str]:
        board = board_of(path)
        await board.update()
        async with client_of(board) as client:
            queries = ({"where": "topic=fares"}, {"since": "2023-11-14"}, {"search": "ferry"})
            return [(await client.get("/questions", params=query)).text for query in queries]

    conditions, times, search = run(body)
    assert "<td>Wrong answers</td>" in conditions
    assert "n = 20" in conditions
    assert "n = 40" in times
    assert "Wrong answers" not in search


def test_the_page_explains_what_it_cannot_find(tmp_path: Path):
    """The value, the rule and what is possible."""
    path = make_store(tmp_path / "s.db", 4)

    async def body() -> None:
        board = board_of(path)
        await board.update()
        async with client_of(board) as client:
            for query, text in (
                ({"where": "release=<b>"}, "no sample has 'release'. Keys: "),
                ({"where": "topic"}, "KEY OPERATOR VALUE"),
                ({"sort": "size"}, "cannot sort by 'size'"),
                ({"until": "soon"}, "invalid time 'soon'"),
            ):
                for path_ in ("/questions", "/questions.csv"):
                    response = await client.get(path_, params=query)
                    assert (400, True) == (response.status_code, text in response.text)
                    assert "text/plain" in response.headers["Content-Type"]

    run(body)


def test_csv_has_all_rows_that_are_found(tmp_path: Path):
    """On all pages, in the order of the table, with every metric; a spreadsheet runs nothing of it."""
    path = make_store(tmp_path / "s.db", 12, bad=["=1+1"])

    async def body() -> None:
        board = board_of(path)
        await board.update()
        async with client_of(board) as client:
            query = {"sort": "-time", "cause": "wrong", "n": "1"}
            response = await client.get("/questions.csv", params=query)
        assert 'attachment; filename="questions.csv"' == response.headers["Content-Disposition"]
        rows = list(csv.DictReader(response.text.splitlines()))
        assert ["t8=1+1", "t4=1+1", "t0=1+1"] == [row["id"] for row in rows]
        assert ("2023-11-14T22:21:20+00:00", "0.1") == (rows[0]["time"], rows[0]["ccrs.ac"])
        assert {"query", "cause", "mean_score", "ccrs.qr", "ragas.faithfulness"} < rows[0].keys()

    run(body)


def test_one_answer(tmp_path: Path):
    """With its evidence; an unknown id is not found."""
    path = make_store(tmp_path / "s.db", 4)

    async def body() -> None:
        async with client_of(board_of(path)) as client:
            found = await client.get("/answer", params={"id": "t0"})
            assert "It costs 0 crowns." in found.text
            assert 'id="heading"' in found.text
            assert 'data-text="t0"' in found.text
            assert 'data-link="#q=t0"' in found.text
            assert 404 == (await client.get("/answer", params={"id": "<b>"})).status_code
            path.write_bytes(b"no store")
            damaged = await client.get("/answer", params={"id": "t0"})
            assert 503 == damaged.status_code
            assert "is not a Ragstone store" in damaged.text

    run(body)


def test_an_answer_has_the_steps_of_its_request(tmp_path: Path):
    """With times and tokens as far as they were captured, and "unknown" where they were not."""
    path = tmp_path / "s.db"
    found = tuple(Passage(text=f"Passage {n}.") for n in range(2))
    inner = Retrieval(name="bm25 <b>", passages=found)
    known = make_trace(0).model_copy(
        update={
            "retrievals": (Retrieval(query="rewritten", passages=found[:1], name="fused", stages=(inner,)),),
            "ended_at": 1_700_000_001.5,
            "first_token_s": 0.25,
            "model": "m-1",
            "usage": Usage(input_tokens=1200, output_tokens=34, calls=2, cost_usd=0.5),
            "inner_errors": ("retried: 503",),
        }
    )
    with SqliteStore.open(path, mode="own") as store:
        store.traces.ingest("test", 1, [Captured(trace=known), Captured(trace=make_trace(1))])

    async def body() -> list[list[list[str]]]:
        async with client_of(board_of(path)) as client:
            texts = [(await client.get("/answer", params={"id": id_})).text for id_ in ("t0", "t1")]
        tables = [text.partition('class="request"')[2] for text in texts]
        rows = [re.findall(r"<tr>(<td.*?)</tr>", table) for table in tables]
        return [[re.findall(r"<td[^>]*>(.*?)</td>", row) for row in each] for each in rows]

    first, second = run(body)
    assert [
        ["Retrieval fused", "rewritten → 1 passage", "unknown", ""],
        ["Stage bm25 &lt;b&gt;", "2 passages", "unknown", ""],
        ["Model m-1", "3 passages in the prompt, 2 calls", "0.25 s to the first token", "1,200 + 34"],
        ["Handled error", "retried: 503", "", ""],
        ["Whole request", "ok, 0.5000 USD", "1.50 s", "1,200 + 34"],
    ] == first
    assert [
        ["Model unknown", "3 passages in the prompt", "unknown", "unknown"],
        ["Whole request", "ok, cost unknown", "unknown", "unknown"],
    ] == second


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
