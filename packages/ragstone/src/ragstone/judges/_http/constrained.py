"""Replies held to a form by the server: which constraints it takes and obeys is learnt by using them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ragstone.judges._http.dialect import CONSTRAINTS, Constraint, is_too_long
from ragstone.judges._http.endpoint import RequestRefusedError
from ragstone.judges._http.replies import completions
from ragstone.judges._model import Completion

__all__ = ["ConstrainedReplies"]

_MAX_VALUES: Final = 1001
"""A regular expression that lists more numbers than this is refused by some servers."""
_REFUSALS: Final = 3
"""A single refusal may be about the material, as content filters are; a server that refused so many takes no schemas."""

Ask = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Sends the request with these fields added to its body."""


class ConstrainedReplies:
    """What one endpoint can be made to reply."""

    def __init__(self) -> None:
        self._constraints: tuple[Constraint, ...] = CONSTRAINTS
        self._schemas_refused = 0
        self._took_a_schema = False

    async def number(self, ask: Ask, low: int, high: int) -> Completion | None:
        """A whole number in [low, high]; None where no constraint that the endpoint obeys is left.

        Raises:
            JudgeError: No reply.
        """
        for constraint in self._constraints if high - low < _MAX_VALUES else ():
            reply = await _unless_refused(ask, constraint.fields(low, high))
            if reply is not None:
                (completion, *_) = completions(reply)
                if completion.finish != "stop" or constraint.obeyed(completion.text, low, high):
                    return completion
            self._constraints = tuple(usable for usable in self._constraints if usable is not constraint)
        return None

    async def json(self, ask: Ask, schema: Mapping[str, Any]) -> Completion | None:
        """JSON of a schema; None where the endpoint refuses it. Whether it obeyed, the reader of the reply sees.

        An endpoint that took a schema once is offered one with each question; one that never did, a few times.

        Raises:
            JudgeError: No reply.
        """
        if self._schemas_refused >= _REFUSALS and not self._took_a_schema:
            return None
        form = {"name": "reply", "strict": True, "schema": schema}
        reply = await _unless_refused(ask, {"response_format": {"type": "json_schema", "json_schema": form}})
        if reply is None:
            self._schemas_refused += 1
            return None
        self._took_a_schema = True
        (completion, *_) = completions(reply)
        return completion


async def _unless_refused(ask: Ask, fields: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return await ask(fields)
    except RequestRefusedError as refused:
        if refused.status not in (400, 422) or is_too_long(refused):
            raise
        return None
