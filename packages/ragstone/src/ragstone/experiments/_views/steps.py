"""The steps of a request: its retrievals, the model, and the whole, with what was captured of their times and tokens."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone._util.quantities import count
from ragstone.schema import Retrieval, Trace, Usage
from ragstone.views import StepView

_UNKNOWN = "unknown"


def steps_of(trace: Trace) -> tuple[StepView, ...]:
    """Return the steps of a request. Times of single retrievals are not captured."""
    steps = [step for retrieval in trace.retrievals for step in _retrieval_steps(retrieval, trace.query)]
    contexts, usage, first = trace.prompt_contexts, trace.usage, trace.first_token_s
    about = "passages in the prompt unknown" if contexts is None else f"{count(len(contexts), 'passage')} in the prompt"
    if usage is not None and usage.calls:
        about += f", {count(usage.calls, 'call')}"
    steps.append(
        StepView(
            name=f"Model {trace.model or _UNKNOWN}",
            about=about,
            duration=_UNKNOWN if first is None else f"{first:.2f} s to the first token",
            tokens=_tokens(usage),
        )
    )
    steps += [StepView(name="Handled error", about=text, duration="", tokens="") for text in trace.inner_errors]
    seconds = None if trace.ended_at is None else trace.ended_at - trace.started_at
    # The clock may have been put back.
    is_known = seconds is not None and seconds >= 0
    cost = "" if usage is None else usage.cost_text
    steps.append(
        StepView(
            name="Whole request",
            about=": ".join(filter(None, [trace.status, trace.error])) + (f", {cost}" if cost else ", cost unknown"),
            duration=f"{seconds:.2f} s" if is_known else _UNKNOWN,
            tokens=_tokens(usage),
        )
    )
    return tuple(steps)


def _retrieval_steps(retrieval: Retrieval, asked: str | None, name: str = "Retrieval") -> Iterator[StepView]:
    found = count(len(retrieval.passages), "passage")
    about = found if retrieval.query in (None, asked) else f"{retrieval.query} → {found}"
    yield StepView(name=f"{name} {retrieval.name or ''}".strip(), about=about, duration=_UNKNOWN, tokens="")
    for stage in retrieval.stages:
        yield from _retrieval_steps(stage, asked, "Stage")


def _tokens(usage: Usage | None) -> str:
    if usage is None or not (usage.calls or usage.input_tokens or usage.output_tokens):
        return _UNKNOWN
    return usage.tokens_text.removesuffix(" tokens")
