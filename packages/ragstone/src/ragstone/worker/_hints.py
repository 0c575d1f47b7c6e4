"""What to do about pending requests, and about outcomes that tables can omit. All advice about a store is from here."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any, Final

from ragstone._util.quantities import count
from ragstone.schema import Ledger, ScoringPlan
from ragstone.store import describe_store, is_owned, plan_differences, quote_store

METRICS: Final = "scoring.metrics"
FORMS: Final = " (http://HOST:PORT/v1, openai:MODEL, or lexical to try the setup)"
"""How a model can be named."""


def advise(store: str | os.PathLike[str], ledger: Ledger, *, delivery: Mapping[str, Any] | None = None) -> list[str]:
    """Return sentences about pending requests, with commands that score them, and about outcomes of other plans.

    `delivery` are options of a worker of this process, which scores no more. None means those of the last worker, and
    no command if a process owns the store and scores the requests.
    """
    return [*describe_pending(store, ledger, delivery).values(), *_other_outcomes(store, ledger)]


def _other_outcomes(store: str | os.PathLike[str], ledger: Ledger) -> list[str]:
    """Return a sentence about outcomes of other judges, metrics and versions, with the command that shows them."""
    n = sum(ledger.other_outcomes.values())
    if not n:
        return []
    judges = ", ".join(f"{judge!r}: {number:,}" for judge, number in ledger.other_outcomes.items())
    sentence = (
        f"{n:,} stored {'outcome is' if n == 1 else 'outcomes are'} of metrics, versions or judges that do not score the "
        f"store now (by judge: {judges}). Tables can omit them. To see all: ragstone store export {quote_store(store)} "
        "outcomes.jsonl"
    )
    return [sentence]


def describe_pending(
    store: str | os.PathLike[str], ledger: Ledger, delivery: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return a sentence about the pending requests of each plan, by its id. The arguments are those of `advise`."""
    if not ledger.total.pending:
        return {}
    # Without a plan, the metrics of the last worker are known. The judge is not.
    known = {METRICS: list(ledger.metrics) or ["ccrs"], "judge.url": None}
    plans = ledger.plans or (ScoringPlan(id="", settings=known, since=0.0, pending=ledger.total.pending),)
    metrics = [f"--metrics={','.join(ledger.metrics)}"] if ledger.metrics and not ledger.plans else []
    last = next((plan for plan in plans if plan.id == ledger.last_worker.get("plan")), None)
    owned = delivery is None and is_owned(store)
    # Requests whose plan lacks only models are scored with the plan that applies.
    pending: dict[str, int] = {}
    for plan in plans:
        scored_with = plan if plan_differences(plan.settings, plans[-1].settings) else plans[-1]
        pending[scored_with.id] = pending.get(scored_with.id, 0) + plan.pending
    waiting = [plan for plan in plans if pending.get(plan.id)]
    sentences: dict[str, str] = {}
    for plan in waiting:
        about = f"{count(pending[plan.id], 'request is', 'requests are')} pending"
        is_only = len(waiting) == 1 and plan is plans[-1]
        about += "" if is_only else f" with plan {plan.id} ({_describe_plan(plan.settings)})"
        is_other = last is not None and bool(plan_differences(plan.settings, last.settings))
        # The process that captured requests without a model owns the store for short turns, and does not complete them.
        if owned and not is_other and not (plan.id and lacks_models((last or plan).settings)):
            sentences[plan.id] = f"{about}. The process that owns the store scores them."
            continue
        flags = ["--until-idle", *metrics, *([] if is_only else [f"--plan={plan.id}"])]
        wait = " The process that owns the store scores another plan, and must end first." if owned and is_other else ""
        options = {key: value for key, value in ledger.last_worker.items() if key != "plan"}
        command = worker_command(store, plan.settings, options if delivery is None else delivery, *flags)
        replace = "".join(f" Replace {name}{form}." for name, form in _placeholders(plan.settings, delivery or options))
        sentences[plan.id] = f"{about}.{replace}{wait} Score with: {command}"
    return sentences


_SET: Final = {"embedder": "set=embedder.url", "reasons": "set=scoring.reasons"}
"""The settings of a worker without an option of their own."""


def worker_command(
    store: str | os.PathLike[str], settings: Mapping[str, Any], delivery: Mapping[str, Any], *flags: str
) -> str:
    """Return the command of a worker with the plan of a store, quoted for a shell. JUDGE stands for a judge that is not stored.

    `delivery` are options that do not change scores (see `ScoringSetup.delivery`), `flags` those without a value.
    """
    parts = ["ragstone", "worker", describe_store(store), *flags]
    missing = _missing(settings)
    for name, value in missing.items():
        role = name.lower()
        parts.append(f"--{_SET.get(role, role)}={name}")
        if _is_secret(value):
            # A model that an option names does not take settings of the plan: it can be at another endpoint.
            own = [key for key in settings if key.startswith(f"{role}.") and key != f"{role}.url"]
            parts += [f"--set={key}={show_value(settings[key])}" for key in own]
    if any(_is_object(value) for value in missing.values()):
        parts.append("--replan")
    for key, value in delivery.items():
        parts += [f"--{_SET.get(key, key)}={each}" for each in (value if isinstance(value, list) else [value])]
    return shlex.join(parts)


def _missing(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the options of a command have to name, by placeholder: metrics and models that a plan does not keep."""
    missing: dict[str, Any] = {}
    if _is_object(settings.get(METRICS)):
        missing["METRICS"] = settings[METRICS]
    for key, value in settings.items():
        role, _, name = key.partition(".")
        if name == "url" and (value is None or _is_object(value) or _is_secret(value)):
            missing[role.upper()] = value
    return missing


def _placeholders(settings: Mapping[str, Any], delivery: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the placeholders of a command, each with the end of the sentence that explains it."""
    found = []
    for name, value in _missing(settings).items():
        form = "" if name == "METRICS" else FORMS
        if _is_secret(value):
            url, _, keys = value.removeprefix("secret:").rstrip(")").partition(" (")
            form += f", which is {url}" + (" without its secret parts" if "url" in keys.split(", ") else "")
            if others := [f"{name.lower()}.{key}" for key in keys.split(", ") if key != "url"]:
                form += f", and set {' and '.join(others)}, which the store does not keep"
        elif value is not None:
            form += f", which is {show_value(value)}"
        found.append((name, form))
    sinks = [sink for sink in delivery.get("sink", ()) if sink == "SINK" or sink.endswith(":URL")]
    return found + [(sink, ", which is not stored") for sink in sinks]


def lacks_models(settings: Mapping[str, Any]) -> bool:
    """Return whether a plan does not name a model that its metrics need."""
    return any(key.endswith(".url") and value is None for key, value in settings.items())


def _is_secret(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("secret:")


def _is_object(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(isinstance(each, str) and each.startswith("object:") for each in values)


def _describe_plan(settings: Mapping[str, Any]) -> str:
    """Describe the metrics and the models of a plan in a few words."""
    shown = {key: value for key, value in settings.items() if key == METRICS or key.endswith(".url")}
    return ", ".join(show_setting(key, value) for key, value in shown.items())


def show_setting(key: str, value: Any) -> str:
    """Return a setting of a plan for a message."""
    return f"{key} = {show_value(value)}"


def show_value(value: Any) -> str:
    """Return a value of a plan for a message."""
    if value is None:
        return "not set"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
