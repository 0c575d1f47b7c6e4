"""Cases of a month whose quality drifts: the weighted mean of drawn cases, beside the mean of a failures-only set."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from completions import complete
from ragstone.experiments import choose_cases
from ragstone.schema import Captured, Passage, Score, Trace
from ragstone.stats import estimate_mean
from ragstone.store import PlannedMetric, SqliteStore

DAYS, A_DAY, CASES, STORES, DRAWS = 28, 40, 100, 8, 50
METRICS = ("ccrs.ac", "ragas.faithfulness", "ccrs.qr")


def write_month(path: Path, rng: np.random.Generator) -> float:
    """Write a store of 28 days, and return the mean of all requests, also of those that were not captured.

    The share of correct answers falls from 0.85 to 0.55. From day 15 on, a third of the requests is captured.
    """
    values, entries = [], []
    for day in range(DAYS):
        share = 1.0 if day < DAYS / 2 else 1 / 3
        for k in range(round(A_DAY / share)):
            is_right = rng.random() < 0.85 - 0.3 * day / (DAYS - 1)
            value = float(rng.beta(8, 2) if is_right else rng.beta(2, 8))
            values.append(value)
            if rng.random() < share:
                trace = Trace(
                    trace_id=f"{day}-{k}", started_at=1_700_000_000.0 + 86400 * day + k, query="Why?", response="Rain.",
                    contexts=(Passage(text="Rain."),), inclusion_probability=share,
                )  # fmt: skip
                others = (float(np.clip(value + rng.normal(0, 0.3), 0, 1)), float(rng.random()))
                entries.append((trace, (value, *others)))
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([PlannedMetric(name=name, version="1") for name in METRICS], [])
        store.traces.ingest("a", 1, [Captured(trace=trace) for trace, _ in entries])
        for trace, scores in entries:
            complete(store, trace.trace_id, [
                Score(sample_id=trace.trace_id, metric=name, metric_version="1", value=value, method="exact", details={"em": 0.0, "judge": value})
                for name, value in zip(METRICS, scores, strict=True)
            ])  # fmt: skip
    return float(np.mean(values))


def mean_of(path: Path, **options) -> tuple[float, float, float]:
    """The mean and the interval that cases give for `ccrs.ac`."""
    rows = [json.loads(line) for line in choose_cases(path, **options).lines()]
    found = estimate_mean(
        [row["case"]["scores"]["ccrs.ac"] for row in rows],
        low=0, high=1, probabilities=[row.get("inclusion_probability", 1.0) for row in rows],
    )  # fmt: skip
    assert found is not None
    return found.value, found.low, found.high


@pytest.mark.timeout(1800)
def test_drawn_cases_estimate_production(tmp_path: Path) -> None:
    """The interval of the weighted mean covers the mean of all requests in at least 93%; that of failures never."""
    rng, covered, errors, widths, failures, unweighted = np.random.default_rng(44), [], [], [], [], []
    for number in range(STORES):
        path = tmp_path / f"{number}.db"
        truth = write_month(path, rng)
        for seed in range(DRAWS):
            mean, low, high = mean_of(path, limit=CASES, seed=seed)
            covered.append(low <= truth <= high)
            errors.append(mean - truth)
            widths.append(high - low)
        mean, low, high = mean_of(path, worst=CASES)
        failures.append(low <= truth <= high)
        unweighted.append(mean - truth)
    print(
        f"\n| drawn | {100 * np.mean(covered):.1f} % | {np.mean(errors):+.3f} | {np.mean(widths):.3f} |"
        f"\n| failures only | {100 * np.mean(failures):.0f} % | {np.mean(unweighted):+.3f} | |"
    )
    assert np.mean(covered) >= 0.93
    assert np.mean(errors) == pytest.approx(0, abs=4 * np.std(errors) / np.sqrt(len(errors)))
    assert not any(failures)
