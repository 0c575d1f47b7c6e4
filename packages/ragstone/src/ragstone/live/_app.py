"""The routes of the live page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ragstone.errors import RagstoneError
from ragstone.live._board import Board
from ragstone.live._labels import LabelDesk
from ragstone.live._questions import find_questions
from ragstone.views import LiveDocument, answer_part, live_places, problem_part

_HEARTBEAT_S: Final = 15.0
"""Seconds after which a comment is sent to a browser that waits, so that a lost connection is noticed."""
_RETRY_MS: Final = 2000
"""Milliseconds after which a browser connects again."""


def make_app(board: Board, desk: LabelDesk, *, stopping: asyncio.Event | None = None) -> Starlette:
    """Make the application that serves the live page. It does not check who asks: put a `Guard` in front of it.

    Args:
        board: The parts of the page.
        desk: The page on which people label answers.
        stopping: Set when the server stops, so that it does not wait for browsers that wait for changes.
    """
    stop = stopping or asyncio.Event()

    async def page(_: Request) -> Response:
        await board.update()
        return _document(board.document())

    async def parts(request: Request) -> Response:
        return HTMLResponse(live_places(board.parts, request.query_params.getlist("name")))

    async def events(request: Request) -> Response:
        seen = request.headers.get("last-event-id") or request.query_params.get("since", "")
        return StreamingResponse(_events(board, seen, stop), media_type="text/event-stream")

    async def questions(request: Request) -> Response:
        view = board.report.view
        if view is None:
            return HTMLResponse("")
        found = await asyncio.to_thread(find_questions, view, request.query_params)
        headers = {"X-Found": str(found.n), "X-Total": str(len(view.questions))}
        return HTMLResponse(found.rows, headers=headers)

    async def answer(request: Request) -> Response:
        try:
            found = await asyncio.to_thread(board.report.answer, request.query_params.get("id", ""))
        except RagstoneError as error:
            return HTMLResponse(problem_part(str(error)), 503)
        if found is None:
            return PlainTextResponse("The store does not contain this request.", 404)
        return HTMLResponse(answer_part(found))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        following = asyncio.create_task(board.run())
        yield
        following.cancel()

    routes = [
        Route("/", page),
        Route("/parts", parts),
        Route("/events", events),
        Route("/questions", questions),
        Route("/answer", answer),
        *desk.routes,
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def _document(document: LiveDocument) -> Response:
    return HTMLResponse(document.text, headers={"Content-Security-Policy": document.policy})


async def _events(board: Board, seen: str, stop: asyncio.Event) -> AsyncIterator[str]:
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
