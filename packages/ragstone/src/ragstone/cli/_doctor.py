"""`ragstone doctor`: capabilities of the endpoints of judge, reader and embedder, and advice."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import typer

from ragstone._util.table import text_table
from ragstone.cli._doctor_items import ItemsResult, rate_items
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._models import Models
from ragstone.cli._output import print_result, sanitize_for_terminal
from ragstone.cli._settings import settings_of
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges import (
    Capabilities,
    ChatModel,
    ChatReader,
    Embedder,
    Judge,
    MissingModel,
    ModelJudge,
    Preparable,
    Reader,
    describe_missing,
    embed_texts,
    find_outage,
    is_baseline,
    metered,
    reader_from,
    wait_for_outages,
)
from ragstone.schema import Usage
from ragstone.worker import StorePlan, read_ledger

Verdict = Literal["yes", "no", "unknown"]

_MAX_OUTAGE_S: Final = 3.0
"""Seconds for which a probe waits for an endpoint that does not reply, in addition to the usual retries."""
_TEXTS: Final = ("How tall is it?", "What is its height?", "The kitchen opens at noon.")
_WITHOUT_MODEL = (
    "does not use a model, so it cannot be probed. It compares words. Use it to test your setup and as a baseline. It "
    "is not a judge. Name an endpoint: --judge http://host:port/v1 or --judge openai:MODEL."
)

_NOT_PROBED: Final = "is loaded. It is not a language model, so the rest cannot be probed."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """The capabilities of one model, or the error of its probe."""

    roles: str
    name: str
    can: Capabilities | None = None
    """None if the role does not use a model, or the probe failed."""
    error: str | None = None
    usage: Usage | None = None
    dimension: int | None = None
    """Dimension of an embedder's vectors."""
    items: ItemsResult | None = None
    """Ratings of the judge for the items of `doctor`."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values: dict[str, Any] = {"roles": self.roles.split(" and "), "name": self.name, "error": self.error}
        if self.dimension is not None:
            values["dimension"] = self.dimension
        if self.can is not None:
            values |= {
                "capabilities": self.can.model_dump(mode="json"),
                "estimator": self.can.estimator,
                "why": _why(self.can),
                "advice": list(_advice(self.can)),
            }
        if self.items is not None:
            values["items"] = {**asdict(self.items), "kappa": self.items.kappa, "usable": self.items.is_usable}
        if self.usage is not None:
            values["usage"] = self.usage.model_dump(mode="json")
        return values

    def as_text(self) -> list[str]:
        """Return lines for a terminal."""
        lines = [f"{self.roles}: {sanitize_for_terminal(self.name)}"]
        if self.error is not None and self.can is None:
            return [*lines, f"  probe failed: {sanitize_for_terminal(self.error, width=600)}"]
        if self.dimension is not None:
            return [*lines, f"  replies with vectors of dimension {self.dimension}"]
        if self.can is None:
            return [*lines, f"  {_WITHOUT_MODEL if is_baseline(self.name) else _NOT_PROBED}"]
        can = self.can
        length = "" if can.context_length is None else f", context of {can.context_length} tokens"
        lines.append(
            f"  model {sanitize_for_terminal(can.model)}, server {sanitize_for_terminal(can.server or 'unknown')}{length}"
        )
        rows = [
            ("capability", "available", "observed"),
            *((name, verdict, sanitize_for_terminal(seen, width=120)) for name, verdict, seen in _rows(can)),
        ]
        lines.append(text_table(rows, indent=2))
        lines.append(f"  -> {_why(can)}")
        if self.error is not None:
            lines.append(f"  -> as a judge: not measured, {sanitize_for_terminal(self.error, width=600)}")
        if self.items is not None:
            lines.append(f"  -> as a judge: {sanitize_for_terminal(self.items.as_text(), width=600)}")
        lines += [f"  advice: {text}" for text in _advice(can)]
        if self.usage is not None:
            lines.append(f"  the probe used {self.usage}")
        return lines


def doctor_command(
    *, store: str | None = None, settings: bool = False, json_output: bool = False, context: typer.Context
) -> None:
    """Measure what the endpoints of judge, reader and embedder can do.

    Explains how Ragstone uses them, and if the judge rates right answers above wrong ones.

    Options:
        settings: Print all settings with value and source, and call no endpoint.
        store: Store whose plan completes these settings.
    """
    if settings:
        if store is not None:
            read_ledger(store)  # says that it does not exist
        plan = None if store is None else StorePlan.read(store).plan
        rows = list(settings_of(context, plan={} if plan is None else plan.settings).rows())
        table = [("setting", "value", "source", "meaning")]
        table += [(row.key, sanitize_for_terminal(row.value), row.source, row.description) for row in rows]
        print_result([asdict(row) for row in rows], text_table(table, n_optional=1), json_output=json_output)
        return
    if store is not None:
        raise ConfigurationError("--store completes the settings that --settings prints. Add --settings")
    judge, reader, embedder = Models(settings_of(context)).build()
    findings = asyncio.run(_probe_all(judge, reader, embedder))
    if not findings:
        raise ConfigurationError(describe_missing("judge"))
    endpoints = [finding.as_dict() for finding in findings]
    text = "\n\n".join("\n".join(finding.as_text()) for finding in findings)
    print_result({"endpoints": endpoints}, text, json_output=json_output)
    if any(finding.error is not None or (finding.items and not finding.items.is_usable) for finding in findings):
        raise typer.Exit(ExitCode.INFRASTRUCTURE)


async def _probe_all(judge: Judge, reader: Reader | None, embedder: Embedder | None) -> list[_Finding]:
    findings = await _probe_chats(judge, reader)
    return findings if embedder is None else [*findings, await _probe_embedder(embedder)]


async def _probe_embedder(embedder: Embedder) -> _Finding:
    # The name is final when the embedder is prepared.
    dimension, error = None, None
    with metered() as meter, wait_for_outages(_MAX_OUTAGE_S), _shown(f"probing embedder: {embedder.identity.name}"):
        try:
            if isinstance(embedder, Preparable):
                await embedder.prepare()
            dimension = int((await embed_texts(embedder, _TEXTS)).shape[1])
        except (JudgeError, ConfigurationError) as failure:
            error = str(failure)
        finally:
            await embedder.aclose()
    name = embedder.identity.name
    return _Finding(roles="embedder", name=name, error=error, usage=meter.total, dimension=dimension)


async def _probe_chats(judge: Judge, reader: Reader | None) -> list[_Finding]:
    resolved_reader = reader_from(reader, judge=judge)
    if isinstance(resolved_reader, MissingModel) and isinstance(judge, MissingModel):
        return []
    judge_model, reader_model = _model(judge), _model(resolved_reader)
    try:
        if judge_model is not None and judge_model is reader_model:
            return [await _probe_judge("judge and reader", judge, judge_model)]
        findings = []
        if judge_model is not None:
            findings.append(await _probe_judge("judge", judge, judge_model))
        elif not isinstance(judge, MissingModel):
            findings.append(await _prepare_judge(judge))
        # Report a reader without a model only if the user named it. Otherwise it repeats the judge's line.
        if reader_model is not None:
            findings.append(await _probe("reader", reader_model))
        elif reader is not None:
            findings.append(_Finding(roles="reader", name=resolved_reader.identity.name))
        return findings
    finally:
        await judge.aclose()
        await resolved_reader.aclose()


async def _prepare_judge(judge: Judge) -> _Finding:
    """Load a judge that does not use a language model."""
    error = None
    try:
        if isinstance(judge, Preparable):
            await judge.prepare()
    except (JudgeError, ConfigurationError) as failure:
        error = str(failure)
    return _Finding(roles="judge", name=judge.identity.name, error=error)


def _model(role: Judge | Reader) -> ChatModel | None:
    return role.model if isinstance(role, ModelJudge | ChatReader) else None


async def _probe_judge(roles: str, judge: Judge, model: ChatModel) -> _Finding:
    finding = await _probe(roles, model)
    if finding.error is not None:
        return finding
    with wait_for_outages(_MAX_OUTAGE_S), _shown(f"asking {roles}: {model.name}"):
        try:
            return replace(finding, items=await rate_items(judge))
        except (JudgeError, ConfigurationError) as error:
            return replace(finding, error=str(error))


async def _probe(roles: str, model: ChatModel) -> _Finding:
    with metered() as meter, wait_for_outages(_MAX_OUTAGE_S), _shown(f"probing {roles}: {model.name}"):
        try:
            can = await model.capabilities(fresh=True)
        except (JudgeError, ConfigurationError) as error:
            return _Finding(roles=roles, name=model.name, error=str(error), usage=meter.total)
    return _Finding(roles=roles, name=model.name, can=can, usage=meter.total)


@contextmanager
def _shown(what: str) -> Iterator[None]:
    """Show on a terminal what is waited for, while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def line() -> Text:
        outage = find_outage()
        state = "" if outage is None else f", which does not reply (waiting {outage[0]:.0f} s)"
        return Text(f"{sanitize_for_terminal(what, width=200)}{state} ...", no_wrap=True, overflow="ellipsis")

    console = Console(stderr=True)
    with Live(get_renderable=line, console=console, transient=True, refresh_per_second=4, redirect_stdout=False):
        yield


def _rows(can: Capabilities) -> Iterator[tuple[str, Verdict, str]]:
    """Yield the table's rows: name, verdict, observation."""
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
    for route, label in (("chain", "token-id chain"), ("echo", "echoed prompt")):
        yield row(f"exact: {label}", route, route in can.exact_routes)
    if can.asked_tokens:
        yield row("tokens by id", "asked_tokens", holds=True, what=f"{can.asked_tokens} per request")
    yield row("clean token boundary", "boundary_clean", can.boundary_clean)
    constraints = {"regex": "regular expression", "json_schema": "JSON Schema", "json_object": "JSON object, schema"}
    for name, label in constraints.items():
        if name != "json_object" or "json_schema" not in can.structured:
            yield row(f"constrained by: {label}", name, name in can.structured)
    yield row("several replies per request", "several_replies", can.several_replies)
    yield row("whole prompts", "whole_prompts", can.whole_prompts)


def _why(can: Capabilities) -> str:
    """Explain in one sentence which estimator of the abstention probability is used, and why."""
    if can.estimator == "exact_sequence":
        return f"p(abstain) is computed exactly ({can.exact_route}) from the probability of the whole abstention reply."
    if can.estimator == "first_token":
        return (
            f"p(abstain) is bounded by the first token's {can.top_logprobs} listed log-probabilities, because the "
            "endpoint does not return those of a whole reply. If the bounds are wide, replies are drawn as well."
        )
    if can.reasons:
        reason = "the model reasons before it answers, so that first tokens do not predict the answer"
    elif not can.top_logprobs:
        reason = "the endpoint does not return log-probabilities"
    else:
        reason = "the temperature changes the returned log-probabilities, or the probe could not exclude it"
    return f"p(abstain) is estimated from replies drawn at temperature 1, because {reason}."


def _advice(can: Capabilities) -> Iterator[str]:
    """Yield advice that improves accuracy or cost."""
    vllm = (can.server or "").startswith("vllm")
    if can.reasons:
        yield (
            "each request allows 4,096 tokens more for the reasoning. To save them, turn reasoning off if the model "
            "supports it (vLLM, SGLang: extra_body={'chat_template_kwargs': {'enable_thinking': False}})"
        )
    elif not can.top_logprobs and not vllm:
        yield (
            "if you use a gateway, let it forward logprobs, top_logprobs, n and seed (LiteLLM: "
            "allowed_openai_params). For exact probabilities serve the model with vLLM"
        )
    elif can.exact_route is None and not vllm:
        yield "for exact probabilities serve the model with vLLM: vllm serve MODEL"
    if vllm and can.top_logprobs < 20:
        yield "start vLLM with --max-logprobs 20 or more"
    if can.logprobs_raw is False:
        yield "return log-probabilities from before sampling (vLLM: --logprobs-mode raw_logprobs)"
    if can.boundary_clean is False:
        yield "the chat template changes a reply that is part of the conversation. Routes that need it unchanged are off"
    if any("whitespace" in note for note in can.notes) and vllm:
        yield (
            "start vLLM with --structured-outputs-config "
            '\'{"backend": "xgrammar", "disable_any_whitespace": true}\', so that JSON replies end'
        )
    if can.whole_prompts is False:
        yield (
            "the server cuts long prompts without an error. Raise its context length (Ollama: num_ctx, or "
            "OLLAMA_CONTEXT_LENGTH=16384). Until then, judge calls with such prompts fail as prompt_truncated"
        )
    if not can.several_replies and can.estimator != "exact_sequence":
        yield "each drawn reply needs a separate request. Expect up to 20 per passage"
    yield from can.notes
