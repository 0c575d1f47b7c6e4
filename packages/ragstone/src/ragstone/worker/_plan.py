"""The plan of a store for a command that scores: what it completes, and what has to be named or confirmed."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from ragstone.errors import ConfigurationError, RagstoneError, StoreNotFoundError, StoreNotReadyError
from ragstone.judges import OptionNames, Role
from ragstone.metrics import resolve_metrics
from ragstone.schema import ScoringPlan
from ragstone.store import describe_store, plan_differences
from ragstone.worker import _times
from ragstone.worker._hints import METRICS, lacks_models, show_setting, show_value
from ragstone.worker._setup import ScoringSetup, describe_unnamed, find_needs
from ragstone.worker._status import read_ledger

DEFAULT_METRICS: Final = ("ccrs",)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlan:
    """The plan with which a command scores a store.

    1. `complete` returns the settings that options, environment and file do not name.
    2. `check` compares the setup that is built from all of them with the plan.
    """

    store: str | os.PathLike[str]
    plan: ScoringPlan | None
    """None if the store does not have a plan, or does not exist."""
    replan: bool = False
    patience_s: float = 0.0
    """Seconds for which a worker tries to own the store, because a process without a model owns it for short turns."""

    @classmethod
    def read(cls, store: str | os.PathLike[str], *, plan_id: str | None = None, replan: bool = False) -> Self:
        """Read a plan of a store, without changing the store.

        The store does not have to exist. The default is the plan that applies. `replan`: the command may replace it.
        Raise ConfigurationError if the store does not have a plan with this id. Raise StoreError if the store cannot be
        read.
        """
        try:
            plans = read_ledger(store).plans
        except (StoreNotFoundError, StoreNotReadyError):
            plans = ()
        plans = tuple(plan for plan in plans if plan.replaced_by is None)
        found = [plan for plan in plans if plan_id in (None, plan.id)]
        if plan_id is not None and not found:
            known = ", ".join(plan.id for plan in plans) or "none"
            raise ConfigurationError(
                f"--plan {plan_id}: the store {describe_store(store)!r} does not have this plan (its plans: {known}). "
                f"See `ragstone status`, or omit --plan"
            )
        patience_s = _times.TURNS_PATIENCE_S if any(lacks_models(plan.settings) for plan in plans) else 0.0
        return cls(store=store, plan=found[-1] if found else None, replan=replan, patience_s=patience_s)

    @property
    def names_metrics(self) -> bool:
        """Whether the plan names metrics."""
        return self.plan is not None and self.plan.settings.get(METRICS) is not None

    def complete(
        self, named: Collection[str], metrics: Sequence[str] | None, *, may_lack_models: bool = False
    ) -> dict[str, Any]:
        """Return the settings of the plan for metrics and models without a name. `scoring.metrics` is always among them.

        `named` are the roles of the models that an option, the environment or a file names, and `metrics` the metrics.
        `may_lack_models` is for a command that does not call a model. Raise ConfigurationError if a metric or a model
        has to be named, or is not installed.
        """
        planned = {} if self.plan is None else self.plan.settings
        names = [*(metrics or planned.get(METRICS) or DEFAULT_METRICS)]
        if objects := [name for name in names if name.startswith("object:")]:
            raise ConfigurationError(
                f"{self._about}: {show_setting(METRICS, objects)}, which only the application can make. Name metrics "
                "with --metrics and --replan, or start the application again"
            )
        try:
            resolved = resolve_metrics(names)
        except (RagstoneError, ValueError) as error:
            if metrics is not None or METRICS not in planned:
                raise
            raise ConfigurationError(
                f"{self._about}: {show_setting(METRICS, names)}, which this installation cannot make: {error}. Install "
                "the package of the metric, or name other metrics with --metrics and --replan"
            ) from error
        settings: dict[str, Any] = {METRICS: names}
        settings |= {key: value for key, value in planned.items() if key.startswith(("answers.", "prompts."))}
        for role, is_needed in find_needs(resolved, "reader.url" in planned or "reader" in named).items():
            settings |= self.complete_model(role) if is_needed and role not in named else {}
        missing = describe_unnamed(resolved, {*named, *(key.partition(".")[0] for key in settings)})
        if missing and not may_lack_models:
            raise ConfigurationError(missing)
        return settings

    def complete_model(self, role: Role) -> dict[str, Any]:
        """Return the settings of the plan for a model without a name, which are empty if the plan does not name it.

        Raise ConfigurationError if the model is an object, or has secrets.
        """
        planned = {} if self.plan is None else self.plan.settings
        settings = {key: value for key, value in planned.items() if key.startswith(f"{role}.") and value is not None}
        url = str(settings.get(f"{role}.url", ""))
        if url.startswith(("object:", "secret:")):
            is_object = url.startswith("object:")
            raise ConfigurationError(
                f"{self._about}: {show_setting(f'{role}.url', url)}, which "
                f"{'only the application can make' if is_object else 'a store does not keep'}. Name it with "
                f"{OptionNames(role, 'command line').option('url')}, RAGSTONE_{role.upper()} or the table [{role}] of --config{', and add --replan' if is_object else ''}"
            )
        return settings

    def check(self, setup: ScoringSetup) -> None:
        """Compare a setup with the plan.

        Raise ConfigurationError if they differ, and the command may not replace the plan.
        """
        if self.plan is None or self.replan:
            return
        differences = plan_differences(self.plan.settings, setup.plan)
        if METRICS in differences and _same_metrics(*differences[METRICS]):
            setup.plan[METRICS], _ = differences.pop(METRICS)
        self._refuse(differences, "also for requests that are pending, add --replan")

    def check_models(self, metrics: Sequence[str], models: Mapping[str, Any]) -> None:
        """Compare models with those that the plan names, for a command that does not replace the plan.

        `models` are settings as in a plan. A model without a URL is not compared. Raise ConfigurationError if a model
        that the metrics need is another one.
        """
        planned = {} if self.plan is None else self.plan.settings
        needs = find_needs(resolve_metrics([*metrics]), "reader.url" in planned or "reader.url" in models)
        roles = [role for role in needs if needs[role] and f"{role}.url" in models and planned.get(f"{role}.url")]
        ours, theirs = (
            {key: value for key, value in settings.items() if key.partition(".")[0] in roles}
            for settings in (models, planned)
        )
        self._refuse(
            plan_differences(theirs, ours), "run `ragstone worker --replan` with them, or score into another store"
        )

    def _refuse(self, differences: Mapping[str, tuple[Any, Any]], replace: str) -> None:
        if differences and self.plan is not None:
            lines = [
                f"{key}: plan {show_value(planned)}, here {show_value(own)}"
                for key, (planned, own) in differences.items()
            ]
            raise ConfigurationError(
                f"these settings differ from plan {self.plan.id} of the store {describe_store(self.store)!r}: "
                f"{'; '.join(lines)}. To score with the plan, omit them (also from the environment and --config). To "
                f"replace the plan, {replace}"
            )

    @property
    def _about(self) -> str:
        prefix = "" if self.plan is None else f"plan {self.plan.id} of "
        return f"{prefix}the store {describe_store(self.store)!r}"


def _same_metrics(*lists: Sequence[str] | None) -> bool:
    """Return whether names are of the same metrics, some of them perhaps as a group."""
    try:
        first, second = ({metric.card.name for metric in resolve_metrics(list(names or ()))} for names in lists)
    except (RagstoneError, ValueError):
        return False
    return first == second
