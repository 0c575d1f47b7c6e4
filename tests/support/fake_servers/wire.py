"""Choices of completions, written as servers write them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fake_servers.dialects import ServerDialect
from fake_servers.generation import SampledReply, Step, ranked
from scripted_model import END, IMPOSSIBLE, ScriptedModel

__all__ = ["ChoiceWriter", "asks_logprobs"]


def asks_logprobs(body: Mapping[str, Any]) -> bool:
    """Whether a request wants log-probabilities; text completions may want 0 alternatives, which is not False."""
    asked = body.get("logprobs")
    return asked is not None and asked is not False


class ChoiceWriter:
    """Writes what was drawn, with the log-probabilities that a request asked for."""

    def __init__(self, model: ScriptedModel, dialect: ServerDialect) -> None:
        self._model = model
        self._dialect = dialect

    def chat(self, body: Mapping[str, Any], ids: Sequence[int], drawn: SampledReply) -> dict[str, Any]:
        """A choice of a chat completion."""
        del ids
        spoken = self._dialect
        message: dict[str, Any] = {"role": "assistant", "content": self._text(drawn)}
        if spoken.reasoning and not drawn.steps:
            message["content"] = None if spoken.reasoning == "separate" else ""
        if spoken.reasoning == "separate":
            message["reasoning_content"] = "Let me see what is asked here."
        choice: dict[str, Any] = {"message": message, "finish_reason": "stop" if drawn.finished else "length"}
        content = None
        if body.get("logprobs") and spoken.logprobs == "served":
            content = [self._entry(body, step) for step in self._reported(drawn)]
        choice["logprobs"] = None if content is None else {"content": content}
        if spoken.token_ids and body.get("return_token_ids"):
            choice["token_ids"] = [step.token for step in drawn.steps]
        return choice

    def text(self, body: Mapping[str, Any], ids: Sequence[int], drawn: SampledReply) -> dict[str, Any]:
        """A choice of a text completion."""
        spoken = self._dialect
        text = self._text(drawn)
        steps = list(self._reported(drawn))
        tokens = [self._shown(body, step.token) for step in steps]
        values: list[float | None] = [step.logprob(step.token) + self._noise(body) for step in steps]
        tops: list[dict[str, float] | None] = [
            {self._shown(body, t): step.logprob(t) + self._noise(body) for t in self._alternatives(body, step)}
            for step in steps
        ]
        if body.get("echo") and spoken.echo == "full":
            text = "".join(map(self._model.text_of, ids)) + text
            tokens = [self._shown(body, token) for token in ids] + tokens
            before = self.read(ids)
            values = [*before, *values]
            if spoken.prompt_logprobs:
                body = {"prompt_logprobs": body.get("logprobs") or 0, **body}
            tops = [None if v is None else {self._shown(body, t): v} for t, v in zip(ids, before, strict=True)] + tops
        choice: dict[str, Any] = {"text": text, "finish_reason": "stop" if drawn.finished else "length"}
        wanted = asks_logprobs(body) and spoken.logprobs == "served"
        choice["logprobs"] = (
            {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops, "text_offset": list(_offsets(tokens))}
            if wanted
            else None
        )
        if spoken.prompt_logprobs and body.get("prompt_logprobs") is not None:
            choice["prompt_logprobs"] = self.prompt(ids, body["prompt_logprobs"])
        if spoken.token_ids and body.get("return_token_ids"):
            choice |= {"token_ids": [step.token for step in drawn.steps], "prompt_token_ids": list(ids)}
        return choice

    def prompt(self, ids: Sequence[int], k: int) -> list[dict[str, Any] | None]:
        """Log-probabilities of the tokens of a prompt, vLLM's form; the likeliest `k` are not added."""
        del k
        return [
            None
            if value is None
            else {str(token): {"logprob": value, "rank": 1, "decoded_token": self._model.text_of(token)}}
            for token, value in zip(ids, self.read(ids), strict=True)
        ]

    def read(self, ids: Sequence[int]) -> list[float | None]:
        """The log-probability of each token after those before it; None for the first.

        What the script has no say in (a question's own tokens) gets a number that depends on the token.
        """
        # A turn that is closed in the prompt is a reply all the same.
        closed = bool(ids) and self._model.text_of(ids[-1]) == END
        start = self._model.reply_start(ids[:-1] if closed else ids)
        values: list[float | None] = [None]
        for place in range(1, len(ids)):
            if start is None or place < start:
                values.append(-1.0 - ids[place] % 7)
            else:
                p = self._model.next_tokens(ids[:place]).get(ids[place], 0.0)
                values.append((math.log(p) if p > 0 else IMPOSSIBLE) + self._dialect.exact_noise)
        return values[: len(ids)]

    def _noise(self, body: Mapping[str, Any]) -> float:
        return self._dialect.exact_noise if body.get("logprob_token_ids") else 0.0

    def _text(self, drawn: SampledReply) -> str:
        return "".join(text for step in drawn.steps if (text := self._model.text_of(step.token)) != END)

    def _reported(self, drawn: SampledReply) -> Iterable[Step]:
        return (s for s in drawn.steps if self._dialect.reports_end or self._model.text_of(s.token) != END)

    def _entry(self, body: Mapping[str, Any], step: Step) -> dict[str, Any]:
        tops = [self._spelled(body, token, step) for token in self._alternatives(body, step)]
        return {**self._spelled(body, step.token, step), "top_logprobs": tops}

    def _spelled(self, body: Mapping[str, Any], token: int, step: Step) -> dict[str, Any]:
        text = self._model.text_of(token)
        return {"token": self._shown(body, token), "logprob": step.logprob(token), "bytes": list(text.encode())}

    def _shown(self, body: Mapping[str, Any], token: int) -> str:
        by_id = self._dialect.token_ids and body.get("return_tokens_as_token_ids")
        return f"token_id:{token}" if by_id else self._model.text_of(token)

    def _alternatives(self, body: Mapping[str, Any], step: Step) -> list[int]:
        """The tokens to report beside the one that was drawn; it comes first where it is not among the likeliest."""
        asked = body.get("logprob_token_ids")
        if asked and self._dialect.asked_tokens:
            return list(dict.fromkeys([step.token, *asked]))
        k = int(body.get("top_logprobs") or 0) if "messages" in body else int(body.get("logprobs") or 0)
        if k == 0 and "messages" in body:
            return []
        best = ranked(step.logprobs)[:k]
        # A real vocabulary never runs out of alternatives.
        unlikely = (token for token in range(10**6) if token not in step.logprobs)
        best += [next(unlikely) for _ in range(k - len(best))]
        return best if step.token in best or not self._dialect.reports_end else [step.token, *best]


def _offsets(tokens: Iterable[str]) -> Iterable[int]:
    offset = 0
    for token in tokens:
        yield offset
        offset += len(token)
