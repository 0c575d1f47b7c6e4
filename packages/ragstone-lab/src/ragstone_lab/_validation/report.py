"""The report of metric validation, as text and as plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragstone.experiments import titles_of
from ragstone.extension import text_table
from ragstone.judges import BASELINE_NOTE
from ragstone.stats import Agreement, Description, PredictionPoweredMean
from ragstone_lab._report import number, plain_fields, result_table, share, shown
from ragstone_lab._validation.agreement import LabelAgreement
from ragstone_lab._validation.describe import UNRESTRICTED, Distribution, MetricPairCorrelation, MetricPower
from ragstone_lab._validation.ranking import RecordRanking, SystemRanking
from ragstone_lab._validation.repeats import MetricRepeatability, PassRate
from ragstone_lab._validation.weights import WeightFit

_CROWDED: Final = 0.5
"""Share of scores at one bound from which a metric discriminates little between answers."""
_REDUNDANT: Final = 0.8
"""Correlation from which two metrics are reported as nearly redundant."""
_FEW: Final = 10
"""Minimum number of samples for this finding: with fewer, unrelated metrics often correlate strongly by chance."""
_MOST_PAIRS: Final = 45
"""Maximum number of printed correlations: all pairs of ten metrics."""
_ASL_SHOWN: Final = 15
_SMALL_P: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValidation:
    """The result of `validate_metrics`."""

    systems: tuple[str, ...]
    distributions: tuple[Distribution, ...]
    correlations: tuple[MetricPairCorrelation, ...]
    """Empty with a single metric."""
    powers: tuple[MetricPower, ...]
    """Empty with a single system."""
    repeatability: tuple[MetricRepeatability, ...]
    """Empty without repeats."""
    labels: tuple[LabelAgreement, ...]
    """Empty without labels."""
    records: tuple[RecordRanking, ...]
    """Empty without several labeled records of one question."""
    rankings: tuple[SystemRanking, ...]
    """Empty without a target."""
    pass_rates: tuple[PassRate, ...]
    """Empty without a k."""
    weights: WeightFit | None
    """Weights of the composite, or None if none were requested."""
    notes: tuple[str, ...]
    confidence_level: float
    seed: int

    def findings(self) -> tuple[str, ...]:
        """Return the main findings as sentences. The tables contain the same numbers."""
        return tuple(_findings(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return plain_fields(self) | {"judge_is_baseline": BASELINE_NOTE in self.notes, "findings": [*self.findings()]}

    def __str__(self) -> str:
        ci = f"[{self.confidence_level:.0%} CI]"
        # Findings come first, because the tables of many metrics are long.
        parts = ["\n".join(findings)] if (findings := self.findings()) else []
        parts += [
            _distributions(self.distributions, ci),
            _correlations(self.correlations, ci) if self.correlations else "",
            _powers(self.powers) if self.powers else "",
            _rankings(self.rankings, ci) if self.rankings else "",
            _table(self.pass_rates, _PASS_RATE, ci, 3, _PASSING_NOTE, *_excluded_repeats(self.pass_rates)),
            _table(self.repeatability, _FLIPS, ci, 2, *_excluded_repeats(self.repeatability)),
            label_tables(self.labels, ci),
            _records(self.records, ci) if self.records else "",
            _weights(self.weights, ci) if self.weights is not None else "",
            "\n".join(self.notes),
        ]
        return "\n\n".join(filter(None, parts))


def _table(found: Sequence[Any], columns: Mapping[str, Callable[[Any], str]], ci: str, n_keys: int, *notes: str) -> str:
    """Return a table of results about metrics with notes, or an empty text without results."""
    table = result_table(found, columns, ci=ci, n_keys=n_keys, titles=titles_of(each.metric for each in found))
    return "\n".join([table, *notes]) if found else ""


def _distributions(found: Sequence[Distribution], ci: str) -> str:
    def scored(cell: Callable[[Distribution, Description], str]) -> Callable[[Distribution], str]:
        return lambda d: "no score" if d.population is None else cell(d, d.population)

    columns: dict[str, Callable[[Distribution], str]] = {
        "metric": lambda d: d.metric,
        "system": lambda d: d.system,
        "n scored / failed / n.a.": lambda d: (
            f"{d.population.n if d.population else 0} / {d.n_failed} / {d.n_not_applicable}"
        ),
        "mean CI": scored(lambda d, _: shown(d.mean)),
        "SD": scored(lambda _, p: number(p.sd)),
        "median [quartiles]": scored(lambda _, p: f"{p.median:.3f} [{p.q1:.3f}, {p.q3:.3f}]"),
        "min, max": scored(lambda _, p: f"{p.minimum:.3f}, {p.maximum:.3f}"),
        "at floor CI": scored(lambda _, p: share(p.at_low)),
        "at ceiling CI": scored(lambda _, p: share(p.at_high)),
        "ties": scored(lambda _, p: "undefined" if p.ties is None else f"{p.ties:.0%}"),
        "skew": scored(lambda _, p: number(p.skewness)),
        "kurtosis": scored(lambda _, p: number(p.kurtosis)),
    }
    note = "ties: probability that two samples have the same score. kurtosis: 0 for a normal distribution."
    return _table(found, columns, ci, 2, note)


def _correlations(found: Sequence[MetricPairCorrelation], ci: str) -> str:
    kinds = list(dict.fromkeys(c.kind for c in found))
    n_systems = max((len(c.per_system) for c in found), default=0)
    of = f", mean of {n_systems} systems" if n_systems > 1 else ""
    rows = [("correlation" + of, *(f"{kind.capitalize()} {ci}" for kind in kinds), "n of samples")]
    cells: dict[tuple[str, str], dict[str, MetricPairCorrelation]] = {}
    for c in found:
        cells.setdefault((c.first, c.second), {})[c.kind] = c
    pairs = (
        sorted(cells.items(), key=lambda cell: -_strength(cell[1])) if len(cells) > _MOST_PAIRS else [*cells.items()]
    )
    for (first, second), by_kind in pairs[:_MOST_PAIRS]:
        sizes = list(by_kind[kinds[0]].n_pairs.values())
        n = "0" if not sizes else str(sizes[0]) if len(set(sizes)) == 1 else f"{min(sizes)} to {max(sizes)}"
        rows.append((f"{first} and {second}", *(_mean(by_kind[kind]) for kind in kinds), n))
    text = (
        text_table(rows)
        + "\nmeans are computed with Fisher's z, and their intervals also hold for systems with common samples"
    )
    if any((c.mean.low, c.mean.high) == (-1, 1) for c in found):
        text += f"\n[-1.000, 1.000]: {UNRESTRICTED}"
    if len(cells) > _MOST_PAIRS:
        text += f"\nthe {_MOST_PAIRS} strongest of {len(cells):,} pairs (all: --json, selected metrics: --metrics)"
    return text


def _strength(by_kind: Mapping[str, MetricPairCorrelation]) -> float:
    """Return the largest absolute correlation, or -1 if all are undefined."""
    return max(-1.0 if c.mean.value is None else abs(c.mean.value) for c in by_kind.values())


def _mean(c: MetricPairCorrelation) -> str:
    m = c.mean
    if m.value is None:
        return "undefined"
    text = f"{m.value:.3f}" if m.low is None or m.high is None else f"{m.value:.3f} [{m.low:.3f}, {m.high:.3f}]"
    return text + (f" ({m.n_undefined} undefined)" if m.n_undefined else "")


def _asl(asl: Sequence[float]) -> str:
    shown_p = (f"{value:.1g}" if value < _SMALL_P else f"{value:.3f}" for value in asl[:_ASL_SHOWN])
    return " ".join(shown_p) + (" ..." if len(asl) > _ASL_SHOWN else "")


_POWER: Final[dict[str, Callable[[MetricPower], str]]] = {
    "discriminative power": lambda m: m.metric,
    "significant pairs": lambda m: f"{m.power.n_significant} of {m.power.n_pairs} ({number(m.power.value)})",
    "untestable": lambda m: str(m.power.n_untestable),
    "samples": lambda m: str(m.n_samples),
    "ASL: p-values in order": lambda m: _asl(m.power.asl),
}


def _powers(found: Sequence[MetricPower]) -> str:
    first = found[0]
    ordered = sorted(found, key=lambda m: -1.0 if m.power.value is None else -m.power.value)
    note = (
        f"p-values: randomized Tukey HSD, paired, {first.n_permutations:,} permutations, adjusted for all pairs of a "
        f"metric, significant below {1 - first.power.confidence_level:.3g}"
    )
    limit = "p-values are within two Monte Carlo errors of the limit. Use more permutations."
    uncertain = [f"{m.metric}: {m.n_uncertain} {limit}" for m in found if m.n_uncertain]
    return _table(ordered, _POWER, "", 1, note, *uncertain)


def _rankings(found: Sequence[SystemRanking], ci: str) -> str:
    n_systems = len(found[0].means)
    columns: dict[str, Callable[[SystemRanking], str]] = {
        f"ranking by {found[0].target}": lambda r: r.metric,
        "Kendall's tau CI": lambda r: shown(r.tau),
        "pairs in the same order": lambda r: f"{r.n_same_order} of {n_systems * (n_systems - 1) // 2}",
        "samples": lambda r: f"{r.n_samples}" + (f" ({r.n_incomplete} incomplete)" if r.n_incomplete else ""),
    }
    ordered = sorted(found, key=lambda r: math.inf if r.tau is None else -r.tau.value)
    note = (
        f"tau: agreement of the rankings of {n_systems} systems by their means, for these systems and as many "
        "samples. More samples usually increase it."
    )
    return _table(ordered, columns, ci, 1, note)


_RECORDS: Final[dict[str, Callable[[RecordRanking], str]]] = {
    "ranking of records": lambda r: r.metric,
    "system": lambda r: r.system,
    "measure": lambda r: r.measure,
    "mean CI": lambda r: shown(r.mean),
    "minus the first CI": lambda r: shown(r.difference, sign="+", none=""),
    "n": lambda r: str(r.mean.n if r.mean else 0),
    "all or none relevant / unscored / tied": lambda r: f"{r.n_undefined} / {r.n_unscored} / {r.n_tied}",
}


def _records(found: Sequence[RecordRanking], ci: str) -> str:
    middles = {r.metric: f"{r.relevant_from:g} ({r.metric})" for r in found}
    note = (
        f"n: questions with several labeled records, relevant in the better half of the labels' range: "
        f"{', '.join(middles.values())} or better. Differences from {found[0].baseline} are paired by question. Their "
        "intervals are not corrected for several comparisons."
    )
    return _table(found, _RECORDS, ci, 3, note)


_PASS_RATE: Final[dict[str, Callable[[PassRate], str]]] = {
    "pass@k": lambda p: p.metric,
    "system": lambda p: p.system,
    "k": lambda p: str(p.k),
    "probability CI": lambda p: shown(p.rate),
    "threshold": lambda p: f"{p.threshold:.3g}",
    "samples": lambda p: f"{p.rate.n if p.rate else 0}" + (f" ({p.n_few} with fewer scores)" if p.n_few else ""),
}

_PASSING_NOTE: Final = "pass@k: probability that at least one of k answers to a question reaches the threshold"
_FLIPS: Final[dict[str, Callable[[MetricRepeatability], str]]] = {
    "repeats": lambda f: f.metric,
    "system": lambda f: f.system,
    "pairs that flip CI": lambda f: share(f.rate.pairs),
    "samples with a flip CI": lambda f: share(f.rate.items),
    "SD of a reply": lambda f: f"{f.rate.spread:.3f}",
    "threshold": lambda f: f"{f.rate.threshold:.3g}",
    "n": lambda f: f"{f.rate.n} samples, {f.rate.n_replies} scores",
}


def _excluded_repeats(found: Sequence[MetricRepeatability | PassRate]) -> dict[str, None]:
    return dict.fromkeys(
        f"{f.metric}, {f.system}: excluded {f.n_unscored} without a score, {f.n_other_judge} of another judge or prompt"
        for f in found
        if f.n_unscored or f.n_other_judge
    )


_AGREEMENT: Final[dict[str, Callable[[LabelAgreement], str]]] = {
    "agreement with people": lambda a: a.name,
    "system": lambda a: a.system,
    "n": lambda a: str(a.n),
    "exact agreement CI": lambda a: share(a.exact, none="undefined") if a.categories else "continuous",
    "Cohen's kappa CI": lambda a: _agreement(a.cohen) if a.categories else "continuous",
    "Krippendorff's alpha CI": lambda a: _agreement(a.krippendorff),
    "Spearman CI": lambda a: shown(a.spearman),
    "Kendall CI": lambda a: shown(a.kendall),
    "judge - people CI": lambda a: shown(a.bias, sign="+", none="unknown"),
}
_HUMAN_MEAN: Final[dict[str, Callable[[tuple[LabelAgreement, PredictionPoweredMean]], str]]] = {
    "estimated human mean": lambda pair: pair[0].metric,
    "system": lambda pair: pair[0].system,
    "prediction-powered CI": lambda pair: shown(pair[1].estimate),
    "labels alone CI": lambda pair: shown(pair[1].labels_only),
    "judge alone": lambda pair: f"{pair[1].judge_mean:.3f}",
    "labels": lambda pair: str(pair[1].n_labeled),
    "judged": lambda pair: str(pair[1].n_judged),
    "equivalent to": lambda pair: "" if pair[1].labels_worth is None else f"{pair[1].labels_worth:.0f} labels",
}


def label_tables(found: Sequence[LabelAgreement], ci: str) -> str:
    """Return the tables of agreement with people and of estimated human means, with notes. Empty without labels."""
    text = [_table(found, _AGREEMENT, ci, 2)]
    if means := [(a, a.human_mean) for a in found if a.human_mean is not None]:
        titles = titles_of(a.metric for a in found)
        text += ["", result_table(means, _HUMAN_MEAN, ci=ci, n_keys=2, titles=titles)]
    notes: dict[str, list[str]] = {}
    for a in found:
        subject = f"{a.name}, {a.system}"
        scale = f"labels from {a.label_range[0]:g} to {a.label_range[1]:g}"
        missing = f", excluded {a.n_unscored} labeled samples without a score" if a.n_unscored else ""
        missing += f", {a.n_unknown} labels of unknown samples" if a.n_unknown else ""
        notes.setdefault(f"{scale}{missing}", []).append(subject)
        if a.people is not None:
            fleiss = "" if a.people_fleiss is None else f", Fleiss' kappa {_agreement(a.people_fleiss)}"
            people = f"agreement among people: alpha {_agreement(a.people)}{fleiss}, n {a.people.n}"
            notes.setdefault(people, []).append(subject)
        for note in a.notes:
            notes.setdefault(note, []).append(subject)
    # A note that applies to all metrics is printed once.
    for note, subjects in notes.items():
        everywhere = len(subjects) == len(found) > 1
        text.append(f"{'all metrics' if everywhere else '; '.join(subjects)}: {note}")
    return "\n".join(text)


def _weights(fit: WeightFit, ci: str) -> str:
    rows = [("weight in the composite", f"weight {ci}")]
    rows += [(name, shown(weight)) for name, weight in zip(fit.metrics, fit.weights, strict=True)]
    return (
        text_table(rows, titles=titles_of(fit.metrics))
        + f"\nSpearman correlation with the labels: {shown(fit.rank_correlation)} with weights from other samples "
        f"(5 folds), {number(fit.equal_weights)} with equal weights, n {fit.n_labels} labels of {fit.n_samples} samples"
        + "".join(f"\n{note}" for note in fit.notes)
    )


def _agreement(found: Agreement | None) -> str:
    if found is None or found.coefficient is None:
        return "undefined"
    return f"{shown(found.coefficient)} {found.words}"


def _findings(report: MetricValidation) -> Iterator[str]:
    crowded: dict[str, dict[str, list[str]]] = {}
    for d in report.distributions:
        if d.population is None:
            continue
        for where, at_bound in (("ceiling", d.population.at_high), ("floor", d.population.at_low)):
            if at_bound is not None and at_bound.value >= _CROWDED:
                crowded.setdefault(where, {}).setdefault(d.metric, []).append(f"{at_bound.value:.0%} in {d.system}")
    for where, metrics in crowded.items():
        cases = "; ".join(f"{metric} ({', '.join(shares)})" for metric, shares in metrics.items())
        yield f"many scores are at the {where}, so that the metric does not discriminate between answers: {cases}"
    redundant: dict[tuple[str, str], list[str]] = {}
    for c in report.correlations:
        if c.kind != "spearman" or c.mean.value is None or min(c.n_pairs.values()) < _FEW:
            continue
        if abs(c.mean.value) >= _REDUNDANT:
            what = "the same as" if c.mean.value > 0 else "the opposite of"
            redundant.setdefault((c.first, what), []).append(f"{c.second} ({c.mean.value:.2f})")
    for (metric, what), others in redundant.items():
        yield f"{metric} measures nearly {what} {', '.join(others)} (Spearman correlation)"
    for a in report.labels:
        k = None if a.cohen is None else a.cohen.coefficient
        if k is not None and k.low <= 0:
            yield f"{a.name}, {a.system}: agreement with people is not significantly better than chance (kappa {shown(k)})"
        if a.bias and (m := a.human_mean) and not m.estimate.low <= m.judge_mean <= m.estimate.high:
            side = "above" if m.judge_mean > m.estimate.value else "below"
            yield (
                f"{a.name}, {a.system}: the judge's mean {m.judge_mean:.3f} is {side} the estimated human mean "
                f"{shown(m.estimate)}. Correct it, or recalibrate the judge."
            )
        if a.people is not None and a.people.coefficient is not None and a.krippendorff.coefficient is not None:
            among_people, judge = a.people.coefficient, a.krippendorff.coefficient
            if judge.value >= among_people.value:
                yield (
                    f"{a.name}, {a.system}: on these {a.n} samples the judge agrees with people at least as well as "
                    f"people with each other (alpha {shown(judge)}, among people {shown(among_people)})"
                )
