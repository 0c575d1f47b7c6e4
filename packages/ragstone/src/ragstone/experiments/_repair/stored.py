"""Results of trials in the store that their cases come from, whose reports show them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from ragstone.errors import StoreError
from ragstone.experiments._repair.shares import RepairTrial
from ragstone.experiments._runs import RUN
from ragstone.experiments._views.where import CAUSE, parse_where
from ragstone.reading import case_of
from ragstone.schema import Sample
from ragstone.store import StoredTrial, is_database_url, open_for_labels, quote_store, settle_labels

TRIALS: Final = TypeAdapter(RepairTrial)
"""Reads results that a store keeps."""


def keep_trial(trial: RepairTrial, rows: Sequence[Sample]) -> str:
    """Keep a result in the store of its cases, and say so, or why it is not kept. Empty if no row is a case."""
    cases = {row.id: str(case["store"]) for row in rows if (case := case_of(row)) and "store" in case}
    if not cases or not trial.n_asked:
        return ""
    store, *others = dict.fromkeys(cases.values())
    if others or is_database_url(store) or not Path(store).is_file():
        return (
            f"No store keeps this result: the cases are not of one file that is here ({', '.join([store, *others])})."
        )
    # A message of an error can contain texts.
    body = trial.to_dict() | {"where": _without_labels(trial.where), "failures": {}}
    try:
        with open_for_labels(store) as opened:
            if not opened.traces.answers([*cases]):
                return f"{store!r} does not keep this result: it does not contain these cases."
            run = next((row.metadata[RUN] for row in rows if row.id.startswith(f"{row.metadata.get(RUN)}/")), "")
            opened.labels.save([StoredTrial(f"{run}/{trial.finished_at}", json.dumps(body))])
        settle_labels(store)
    except StoreError as error:
        return f"{store!r} does not keep this result: {error}"
    return f"In the report too: ragstone report {quote_store(store)}"


def _without_labels(where: str | None) -> str | None:
    """Return the conditions on causes. Others may name a user, whose requests can be erased."""
    conditions = parse_where(where) if where else ()
    causes = [f"{each.key}{each.operator}{each.value}" for each in conditions if each.key == CAUSE]
    return " and ".join([*causes, *["other conditions"][: len(conditions) - len(causes)]]) or None
