"""A fake judge that speaks the dialect of one kind of endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Unpack

from fake_servers.judge_dialects import JUDGE_DIALECTS, JudgeDialect
from fake_servers.judge_server import FakeJudgeServer
from fake_servers.loopback import Faults, Plan, Reply

__all__ = ["FakeDialectServer"]

_THOUGHTS: Final = "The scale starts at 0. Score: 10? No, more.\nMaybe 40, or 41. Step {}.\n"
"""Reasoning with numbers that are not the verdict. It does not repeat itself."""
_SHORTEST: Final = 150
_SPREAD: Final = 500


class FakeDialectServer(FakeJudgeServer):
    """A `FakeJudgeServer` behind the refusals and the reasoning of one kind of endpoint.

    Args:
        dialect: Name of a dialect, or a `JudgeDialect`.
        changes: Fields of the dialect with another value.
        api_key: The key it demands. None demands none.
        n_thoughts: Tokens of reasoning in each reply, for dialects that reason. None varies them.
        context_length: Tokens of prompt and reply together. A request for more is refused.
        faults: As for `FakeJudgeServer`.
    """

    def __init__(
        self,
        dialect: str | JudgeDialect,
        *,
        changes: Mapping[str, Any] | None = None,
        api_key: str | None = None,
        n_thoughts: int | None = None,
        context_length: int | None = None,
        **faults: Unpack[Faults],
    ) -> None:
        super().__init__(api_key=api_key, **faults)
        spoken = JUDGE_DIALECTS[dialect] if isinstance(dialect, str) else dialect
        self.dialect = replace(spoken, **(changes or {}))
        self._n_thoughts = n_thoughts
        self._context_length = context_length

    @property
    def n_refused(self) -> int:
        """Requests that were refused."""
        return sum(n for status, n in self.stats.replies.items() if status in ("400", "422", "500"))

    @property
    def n_accepted(self) -> int:
        """Requests that were answered by the model."""
        return self.stats.calls - self.n_refused

    def _plan(self, question: str, body: dict[str, Any]) -> Reply | Plan:
        spoken = self.dialect
        if (refused := spoken.refuse(body)) is not None:
            return refused
        limit = body.get("max_completion_tokens", body.get("max_tokens", 512))
        if self._context_length is not None and len(question) // 4 + limit > self._context_length:
            message = f"This model's maximum context length is {self._context_length} tokens. Reduce max_tokens."
            return self._error(message)
        obeyed = {"structured_outputs": spoken.regex, "regex": False, "response_format": spoken.schemas == "obeyed"}
        plan = super()._plan(question, {name: body[name] for name in body if obeyed.get(name, True)})
        if isinstance(plan, Reply):
            return plan

        def answer(fault: str | None) -> tuple[str, Reply]:
            kind, reply = plan(fault)
            assert isinstance(reply.body, dict)
            (choice,) = reply.body["choices"]
            self._think(choice, reply.body["usage"], question, limit)
            n = body.get("n", 1) if spoken.several == "served" else 1
            reply.body["choices"] = [{**choice, "index": i} for i in range(n)]
            return kind, reply

        return answer

    @staticmethod
    def _error(message: str) -> Reply:
        return Reply(400, {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}})

    def _think(self, choice: dict[str, Any], usage: dict[str, Any], question: str, limit: int) -> None:
        """Put the reasoning in front of a reply, and cut both at the limit."""
        style = self.dialect.reasoning
        if style is None:
            return
        message = choice["message"]
        n_thoughts = self._n_thoughts or _SHORTEST + round(_SPREAD * self._share("thoughts", question))
        cut = limit < n_thoughts + usage["completion_tokens"]
        if cut:
            choice["finish_reason"] = "length"
        answer = "" if cut else message["content"]
        steps = map(_THOUGHTS.format, range(4 * n_thoughts // len(_THOUGHTS) + 1))
        thoughts = "".join(steps)[: 4 * min(n_thoughts, limit)]
        if style in ("tags", "closing tag"):
            opening = "<think>\n" if style == "tags" else ""
            message["content"] = f"{opening}{thoughts}" if cut else f"{opening}{thoughts}\n</think>\n\n{answer}"
        else:
            message["content"] = answer or None
        if style in ("reasoning_content", "reasoning"):
            message[style] = thoughts
        usage["completion_tokens"] = limit if cut else usage["completion_tokens"] + n_thoughts
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        if style == "hidden" and not self.dialect.title.startswith("Gemini"):
            usage["completion_tokens_details"] = {"reasoning_tokens": min(n_thoughts, limit)}
