"""`ragstone doctor`: what the endpoints behind judge and reader can do, and what follows from it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ragstone._util.table import text_table
from ragstone.cli._output import print_json, print_text, sanitize_for_terminal
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges import (
    Capabilities,
    ChatModel,
    ChatReader,
    Judge,
    ModelJudge,
    Reader,
    judge_from,
    metered,
    reader_from,
)
from ragstone.schema import Usage

__all__ = ["run_doctor"]

Verdict = Literal["yes", "no", "unknown"]

_WITHOUT_MODEL = (
    "has no model behind it, so there is nothing to probe. It compares words: good for trying things out and as a "
    "baseline, and no judge. Name an endpoint: --judge http://host:port/v1, or openai:MODEL."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """What was found about one model."""

    roles: str
    name: str
    can: Capabilities | None = None
    """None where there is no model, or it could not be asked."""
    error: str | None = None
    usage: Usage | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found: dict[str, Any] = {"roles": self.roles.split(" and "), "name": self.name, "error": self.error}
        if self.can is not None:
            advice = list(_advice(self.can))
            found |= {
                "capabilities": self.can.model_dump(mode="json"),
                "estimator": self.can.estimator,
                "why": _why(self.can),
                "advice": advice,
            }
        if self.usage is not None:
            found["usage"] = self.usage.model_dump(mode="json")
        return found

    def as_text(self) -> list[str]:
        """Lines for a terminal."""
        lines = [f"{self.roles}: {sanitize_for_terminal(self.name)}"]
        if self.error is not None:
            return [*lines, f"  cannot be asked: {sanitize_for_terminal(self.error, width=600)}"]
        if self.can is None:
            return [*lines, f"  {_WITHOUT_MODEL}"]
        can = self.can
        length = "" if can.context_length is None else f", context of {can.context_length} tokens"
        lines.append(
            f"  model {sanitize_for_terminal(can.model)}, server {sanitize_for_terminal(can.server or 'not told')}{length}"
        )
        rows = [
            ("capability", "there", "seen"),
            *((name, there, sanitize_for_terminal(seen, width=120)) for name, there, seen in _rows(can)),
        ]
        lines.append(text_table(rows, indent=2))
        lines.append(f"  -> {_why(can)}")
        lines += [f"  advice: {text}" for text in _advice(can)]
        if self.usage is not None:
            spent = self.usage
            lines.append(f"  the probe took {spent.calls} calls, {spent.input_tokens} + {spent.output_tokens} tokens")
        return lines


def run_doctor(judge: str | None, reader: str | None, *, json_output: bool) -> bool:
    """Probe the models of judge and reader, and print what was found; False when one of them could not be asked.

    Raises:
        ConfigurationError: A name that names nothing.
    """
    findings = asyncio.run(_examine(judge, reader))
    if json_output:
        print_json({"endpoints": [finding.as_dict() for finding in findings]})
    else:
        print_text("\n\n".join("\n".join(finding.as_text()) for finding in findings))
    return all(finding.error is None for finding in findings)


async def _examine(judge: str | None, reader: str | None) -> list[_Finding]:
    resolved_judge = judge_from(judge)
    resolved_reader = reader_from(reader, judge=resolved_judge)
    mine, yours = _model(resolved_judge), _model(resolved_reader)
    try:
        if mine is not None and mine is yours:
            return [await _examined("judge and reader", mine)]
        findings = [
            _Finding(roles="judge", name=resolved_judge.identity.name)
            if mine is None
            else await _examined("judge", mine)
        ]
        # A reader without a model is only there because the judge has none, or was asked for by name.
        if yours is not None:
            findings.append(await _examined("reader", yours))
        elif reader is not None:
            findings.append(_Finding(roles="reader", name=resolved_reader.identity.name))
        return findings
    finally:
        await resolved_judge.aclose()
        await resolved_reader.aclose()


def _model(who: Judge | Reader) -> ChatModel | None:
    return who.model if isinstance(who, ModelJudge | ChatReader) else None


async def _examined(roles: str, model: ChatModel) -> _Finding:
    with metered() as meter:
        try:
            can = await model.capabilities(fresh=True)
        except (JudgeError, ConfigurationError) as error:
            return _Finding(roles=roles, name=model.name, error=str(error), usage=meter.total)
    return _Finding(roles=roles, name=model.name, can=can, usage=meter.total)


def _rows(can: Capabilities) -> Iterator[tuple[str, Verdict, str]]:
    """What people read: name, verdict, what was seen."""
    seen = can.seen

    def row(label: str, name: str, holds: bool | None, what: str = "") -> tuple[str, Verdict, str]:  # noqa: FBT001
        unmeasured = not holds and seen.get(name, "").startswith("could not be measured")
        verdict: Verdict = "unknown" if holds is None or unmeasured else "yes" if holds else "no"
        return label, verdict, what or seen.get(name, "")

    yield row("temperature", "temperature", "temperature" not in can.refused_parameters)
    yield row("reasons first", "reasons", can.reasons)
    yield row("log-probabilities", "logprobs", can.top_logprobs > 0)
    if can.top_logprobs:
        yield row("  before sampling", "logprobs_raw", can.logprobs_raw)
    for route, label in (("chain", "token-id chain"), ("prefill", "prefilled chat"), ("echo", "echoed prompt")):
        yield row(f"exact: {label}", route, route in can.exact_routes)
    if can.asked_tokens:
        yield row("tokens by id", "asked_tokens", holds=True, what=f"{can.asked_tokens} at once")
    yield row("clean token boundary", "boundary_clean", can.boundary_clean)
    for name, label in (("regex", "regular expression"), ("choice", "choice"), ("json_schema", "JSON Schema")):
        yield row(f"held to: {label}", name, name in can.structured)
    yield row("several replies at once", "several_replies", can.several_replies)
    yield row("seeds", "seeds", can.seeds)
    cached = None if can.prefix_cache is None else can.prefix_cache > 0
    yield row("prefix cache", "prefix_cache", cached)


def _why(can: Capabilities) -> str:
    """Which estimator of the probability to abstain is used, and why, in one sentence."""
    if can.estimator == "exact_sequence":
        return f"p(abstain) is read exactly ({can.exact_route}): the probability of the very reply, no matter how unlikely."
    if can.estimator == "first_token":
        return (
            f"p(abstain) is bounded by the first token's {can.top_logprobs} listed log-probabilities, because no route "
            "gives those of a whole reply; where the bound is wide, replies are drawn as well."
        )
    if can.reasons:
        reason = "the model reasons before it answers, so that first tokens say nothing about the answer"
    elif not can.top_logprobs:
        reason = "no log-probabilities come"
    else:
        reason = "log-probabilities come after the temperature was applied, or it could not be seen that they do not"
    return f"p(abstain) is estimated from replies drawn at temperature 1, because {reason}."


def _advice(can: Capabilities) -> Iterator[str]:
    """What would make it better."""
    vllm = (can.server or "").startswith("vllm")
    if can.reasons:
        yield (
            "turn reasoning off where the model allows it (vLLM, SGLang: extra_body={'chat_template_kwargs': "
            "{'enable_thinking': False}}); else numbers need room: --judge-max-tokens 4096"
        )
    elif not can.top_logprobs and not vllm:
        yield (
            "if a gateway stands between, let it pass logprobs, top_logprobs, n and seed (LiteLLM: "
            "allowed_openai_params); for exact probabilities serve the model with vLLM"
        )
    elif can.exact_route is None and not vllm:
        yield "for exact probabilities serve the model with vLLM: vllm serve MODEL"
    if vllm and can.top_logprobs < 20:
        yield "start vLLM with --max-logprobs 20 or more"
    if can.logprobs_raw is False:
        yield "have log-probabilities taken before sampling (vLLM: --logprobs-mode raw_logprobs)"
    if can.boundary_clean is False:
        yield "the chat template changes a reply that is put into the conversation; the routes that this spoils are off"
    if can.prefix_cache is None and vllm:
        yield "start vLLM with --enable-prompt-tokens-details to see what comes from its prefix cache"
    if can.prefix_cache == 0:
        yield "turn the prefix cache on (vLLM: --enable-prefix-caching): all questions about a sample begin alike"
    if any("white space" in note for note in can.notes) and vllm:
        yield (
            "start vLLM with --structured-outputs-config "
            '\'{"backend": "xgrammar", "disable_any_whitespace": true}\', so that JSON replies come to an end'
        )
    if not can.several_replies and can.estimator != "exact_sequence":
        yield "each drawn reply is a request of its own here; expect up to 20 a passage"
    yield from can.notes
