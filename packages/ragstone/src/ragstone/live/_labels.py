"""The routes of the page on which people label answers."""

from __future__ import annotations

import asyncio
import json
import math
import os
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from ragstone._util.quantities import count
from ragstone.errors import ConfigurationError, DataError, RagstoneError
from ragstone.experiments import FollowedReport, draw_to_label
from ragstone.live._questions import parse_number
from ragstone.store import Store, StoredLabel, open_for_labels
from ragstone.views import label_document, label_item

_MAX_BYTES: Final = 100_000
_MAX_AUTHOR: Final = 100
_MAX_DRAWN: Final = 10_000
_BODY_S: Final = 10.0
"""Seconds in which a browser must send a label."""


class LabelDesk:
    """Shows drawn requests without their scores, and saves labels."""

    def __init__(self, store: str | os.PathLike[str], report: FollowedReport, *, title: str, author: str) -> None:
        self._store = store
        self._report = report
        self._document = label_document(title, author=author)
        self._drawing = threading.Lock()

    @property
    def routes(self) -> list[web.RouteDef]:
        """The routes, for the application."""
        reads = [web.get("/label", self._page), web.get("/label/item", self._item)]
        return [*reads, web.post("/label", self._save), web.post("/label/draw", self._draw)]

    async def _page(self, _: web.Request) -> web.Response:
        return html(self._document.text, headers={"Content-Security-Policy": self._document.policy})

    async def _item(self, request: web.Request) -> web.Response:
        return await answered(self.show, request.query.get("author", ""), parse_number(request.query.get("n", "")))

    async def _draw(self, request: web.Request) -> web.Response:
        return await answered(self.draw, request.query.get("n", ""))

    async def _save(self, request: web.Request) -> web.Response:
        body = b""
        try:
            async with asyncio.timeout(_BODY_S):
                async for chunk in request.content.iter_any():
                    body += chunk
                    if len(body) > _MAX_BYTES:
                        return _last("The label is too large.", 413)
        except TimeoutError:
            return _last("The label did not arrive in time.", 408)
        return await answered(self.save, body)

    def draw(self, n: str) -> web.Response:
        """Draw scored requests to be labeled, and return how many there are.

        Raise DataError if `n` is not a number from 1 to 10,000, or no request is scored.
        """
        wanted = parse_number(n, _MAX_DRAWN)
        if not wanted:
            raise DataError(f"the number of requests to draw must be from 1 to {_MAX_DRAWN:,}, got {n[:100]!r}")
        with self._drawing:  # places in the queue follow those of earlier draws
            drawn = draw_to_label(self._store, wanted)
        text = f"{drawn.n_new:,} of {count(drawn.n_scored, 'scored request')} drawn, {drawn.n_drawn:,} in all draws."
        return web.Response(text=text)

    def show(self, author: str, n: int | None, trace_id: str | None = None) -> web.Response:
        """Return a drawn request or a case by its id, or by its number `n` from 0, of which larger ones mean the last request.

        None means the first one without a label of the author.
        """
        with open_for_labels(self._store) as store:
            queue = _queue(store)
            own = {each.trace_id: each for each in store.labels.read() if each.author == author}
        if trace_id is not None:
            n = queue.index(trace_id)
        elif n is None:
            n = next((k for k, each in enumerate(queue) if each not in own), len(queue) - 1)
        n = min(n, len(queue) - 1)
        about: dict[str, Any] = {"position": n, "total": len(queue), "trace_id": None, "value": None}
        about["labeled"] = len(own.keys() & set(queue))
        text = ""
        if queue:
            label = own.get(queue[n], StoredLabel(queue[n], author, None, 0.0))
            about |= {"trace_id": label.trace_id, "value": label.value}
            answer = self._report.answer(label.trace_id)
            relevant = None if label.relevant is None else json.loads(label.relevant)
            text = "" if answer is None else label_item(answer, label.value, label.correction, relevant)
        return html(text, headers={"X-Label": json.dumps(about)})

    def save(self, body: bytes) -> web.Response:
        """Save or remove a label, and return its request.

        The JSON has `trace_id`, `author` and `value` (from 0 to 1, or None to remove the label), and may have
        `correction` (the correct answer) and `relevant` (1-based positions of the relevant passages). Raise DataError
        if a field is invalid, or the request was not drawn and is not a case.
        """
        try:
            given = json.loads(body)
            trace_id, author, value = given["trace_id"], given["author"], given["value"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DataError("a label needs trace_id, author and value") from None
        if not isinstance(author, str) or not author.strip() or len(author) > _MAX_AUTHOR:
            raise DataError(f"Enter your name, with at most {_MAX_AUTHOR} characters: labels are kept by author.")
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if value is not None and not (is_number and 0 <= value <= 1):
            raise DataError("a value must be from 0 to 1")
        correction, relevant = given.get("correction"), given.get("relevant")
        if not (correction is None or isinstance(correction, str)):
            raise DataError("a correction must be a text")
        is_list = isinstance(relevant, list) and all(type(each) is int and each > 0 for each in relevant)
        if not (relevant is None or is_list):
            raise DataError("relevant must be a list of positions of passages, from 1")
        marks = None if relevant is None else json.dumps(sorted(set(relevant)))
        with open_for_labels(self._store) as store:
            if trace_id not in _queue(store):
                raise DataError("this request was not drawn to be labeled, and is not a case")
            label = StoredLabel(trace_id, author.strip(), value, time.time(), (correction or "").strip() or None, marks)
            store.labels.save([label])
        return self.show(author.strip(), None, trace_id)


def _queue(store: Store) -> list[str]:
    """Return the ids of the drawn requests in their order, then those of cases."""
    drawn = (each.trace_id for each in store.labels.drawn() if each.position is not None)
    return list(dict.fromkeys([*drawn, *(case.trace_id for case in store.labels.cases())]))


async def answered(respond: Any, *arguments: Any) -> web.Response:
    """Return the response that a function makes in a thread, or its error as text."""
    try:
        response: web.Response = await asyncio.to_thread(respond, *arguments)
    except (ConfigurationError, DataError) as error:
        return web.Response(text=str(error), status=400)
    except RagstoneError as error:
        return web.Response(text=str(error), status=503)
    return response


def html(text: str, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a response with HTML."""
    return web.Response(text=text, content_type="text/html", status=status, headers=headers)


def _last(text: str, status: int) -> web.Response:
    """Return a response that ends the connection, because the rest of the request was not read."""
    response = web.Response(text=text, status=status)
    response.force_close()
    return response
