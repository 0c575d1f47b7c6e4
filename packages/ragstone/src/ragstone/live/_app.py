"""The routes of the live page."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final, Literal

from aiohttp import web

from ragstone.errors import RagstoneError
from ragstone.experiments import choose_cases
from ragstone.live._board import Board
from ragstone.live._labels import LabelDesk, answered, html
from ragstone.live._questions import find_questions, parse_number
from ragstone.views import answer_part, found_part, live_places, problem_part
from ragstone.watch import AlarmRequest
from ragstone.worker import change_alarm

_HEARTBEAT_S: Final = 15.0
"""Seconds after which a comment is sent to a browser that waits, so that a lost connection is noticed."""
EVENTS: Final = "/events"
"""Path at which a browser waits for changes. It connects again if the connection ends."""
_ACTIONS: Final[Mapping[str, Literal["accept", "mute"]]] = {"accept": "accept", "mute": "mute"}
"""What can be done about an open alarm."""
_MUTED_S: Final = 3 * 86_400.0
"""How long an alarm is muted."""
_RETRY_MS: Final = 2000
"""Milliseconds after which a browser connects again."""


def make_app(board: Board, desk: LabelDesk, *, stopping: asyncio.Event | None = None) -> web.Application:
    """Make the application that serves the live page. It does not check who asks: add a `Guard`.

    `stopping` is set when the server stops, so that it does not wait for browsers that wait for changes.
    """
    stop = stopping or asyncio.Event()

    async def page(_: web.Request) -> web.Response:
        await board.update()
        document = board.document()
        return html(document.text, headers={"Content-Security-Policy": document.policy})

    async def parts(request: web.Request) -> web.Response:
        return html(live_places(board.parts, request.query.getall("name", [])))

    async def events(request: web.Request) -> web.StreamResponse:
        seen = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        async with aclosing(_events(board, seen, stop)) as texts:
            async for text in texts:
                await response.write(text.encode())
        return response

    async def questions(request: web.Request) -> web.Response:
        view = board.report.view
        if view is None:
            return html("")

        def read() -> web.Response:
            found = find_questions(view, request.query)
            if request.path.endswith(".csv"):
                return _saved(found.csv(), "questions.csv", "text/csv")
            selection = [] if found.selected is None else board.report.estimate(view, found.selected)
            counts = {"X-Found": str(len(found.rows)), "X-Total": str(len(view.questions))}
            return html(found_part(found.page(request.query), selection), headers=counts)

        return await answered(read)

    async def answer(request: web.Request) -> web.Response:
        try:
            found = await asyncio.to_thread(board.report.answer, request.query.get("id", ""))
        except RagstoneError as error:
            return html(problem_part(str(error)), status=503)
        if found is None:
            return web.Response(text="The store does not contain this request.", status=404)
        return html(answer_part(found))

    async def cases(request: web.Request) -> web.Response:
        where, worst = request.query.get("where"), parse_number(request.query.get("worst", ""))

        def read() -> web.Response:
            chosen = choose_cases(board.report.period, where=where, worst=worst)
            return _saved("".join(chosen.lines()), "cases.jsonl", "application/jsonl")

        return await answered(read)

    async def alarm(request: web.Request) -> web.Response:
        action, number = _ACTIONS.get(request.query.get("action", "")), parse_number(request.query.get("number", ""))
        if action is None or number is None:
            return web.Response(text="An alarm has a number, and can be accepted or muted.", status=400)
        change = AlarmRequest(action=action, number=number, until=time.time() + _MUTED_S)
        return await answered(lambda: web.Response(text=change_alarm(board.report.period.store, change)))

    app = web.Application()
    handlers = {"/": page, "/parts": parts, EVENTS: events, "/answer": answer, "/cases": cases}
    handlers |= dict.fromkeys(("/questions", "/questions.csv"), questions)
    app.add_routes([*(web.get(path, handler) for path, handler in handlers.items()), *desk.routes])
    app.router.add_post("/alarm", alarm)
    return app


def _saved(text: str, name: str, content_type: str) -> web.Response:
    """Return a file that the browser saves."""
    saved = {"Content-Disposition": f'attachment; filename="{name}"'}
    return web.Response(text=text, content_type=content_type, headers=saved)


async def _events(board: Board, seen: str, stop: asyncio.Event) -> AsyncGenerator[str]:
    """Yield the names of changed parts, as server-sent events whose id is the revision."""
    yield f"retry: {_RETRY_MS}\n\n"
    stopped = asyncio.ensure_future(stop.wait())
    try:
        with board.viewing():
            while not stop.is_set():
                change = asyncio.ensure_future(board.next_change(seen, timeout_s=_HEARTBEAT_S))
                try:
                    await asyncio.wait({change, stopped}, return_when=asyncio.FIRST_COMPLETED)
                    if not change.done():
                        return
                finally:
                    change.cancel()
                names, seen = change.result(), board.revision
                yield f"id: {seen}\ndata: {json.dumps(names)}\n\n" if names else ": waiting\n\n"
    finally:
        stopped.cancel()
