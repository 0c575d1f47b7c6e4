"""The report of metric validation, as text and as plain values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ragstone._util.table import text_table
from ragstone.experiments import titles_of
from ragstone.judges import BASELINE_NOTE
from ragstone.research._validation.agreement import LabelAgreement
from ragstone.research._validation.describe import Distribution, MetricPairCorrelation, MetricPower
from ragstone.research._validation.passing import PassRate
from ragstone.research._validation.ranking import SystemRanking
from ragstone.research._validation.repeats import MetricRepeatability
from ragstone.research._validation.weights import WeightFit
from ragstone.stats import Agreement, Estimate

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
    rankings: tuple[SystemRanking, ...]
    """Empty without a target."""
    pass_rates: tuple[PassRate, ...]
    """Empty without a k."""
    weights: WeightFit | None
    """Weights of the CCRS composite, or None if none were requested."""
    notes: tuple[str, ...]
    confidence_level: float
    seed: int

    def findings(self) -> tuple[str, ...]:
        """Return the main findings as sentences. The tables contain the same numbers."""
        return tuple(_findings(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain: dict[str, Any] = finite(
            asdict(self) | {"judge_is_baseline": BASELINE_NOTE in self.notes, "findings": list(self.findings())}
        )
        return plain

    def __str__(self) -> str:
        ci = f"[{self.confidence_level:.0%} CI]"
        # Findings come first, because the tables of many metrics are long.
        parts = ["\n".join(findings)] if (findings := self.findings()) else []
        parts.append(_distributions(self.distributions, ci))
        if self.correlations:
            parts.append(_correlations(self.correlations, ci))
        if self.powers:
            parts.append(_powers(self.powers))
        if self.rankings:
            parts.append(_rankings(self.rankings, ci))
        if self.pass_rates:
            parts.append(_pass_rates(self.pass_rates, ci))
        if self.repeatability:
            parts.append(_flips(self.repeatability, ci))
        if self.labels:
            parts.append(_labels(self.labels, ci))
        if self.weights is not None:
            parts.append(_weights(self.weights, ci))
        if self.notes:
            parts.append("\n".join(self.notes))
        return "\n\n".join(parts)


def finite(value: Any) -> Any:
    """Replace infinite numbers and NaN by None, because JSON does not have them."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: finite(part) for key, part in value.items()}
        case list() | tuple():
            return [finite(part) for part in value]
    return value


def shown(estimate: Estimate | None, *, sign: str = "") -> str:
    """Format a number with its interval."""
    if estimate is None:
        return "undefined"
    return f"{estimate.value:{sign}.3f} [{estimate.low:{sign}.3f}, {estimate.high:{sign}.3f}]"


def _share(estimate: Estimate | None) -> str:
    return (
        "no bound"
        if estimate is None
        else f"{estimate.value:.0%} [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"
    )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def _distributions(found: Sequence[Distribution], ci: str) -> str:
    head = (
        "metric", "system", "n scored / failed / n.a.", f"mean {ci}", "SD", "median [quartiles]", "min, max", f"at floor {ci}",
        f"at ceiling {ci}", "ties", "skew", "kurtosis",
    )  # fmt: skip
    rows: list[tuple[str, ...]] = [head]
    for d in found:
        p = d.population
        counts = f"{p.n if p else 0} / {d.n_failed} / {d.n_not_applicable}"
        rows.append(
            (d.metric, d.system, counts, *["no score"] * 9)
            if p is None
            else (
                d.metric,
                d.system,
                counts,
                shown(d.mean),
                _number(p.sd),
                f"{p.median:.3f} [{p.q1:.3f}, {p.q3:.3f}]",
                f"{p.minimum:.3f}, {p.maximum:.3f}",
                _share(p.at_low),
                _share(p.at_high),
                "undefined" if p.ties is None else f"{p.ties:.0%}",
                _number(p.skewness),
                _number(p.kurtosis),
            )
        )
    return (
        text_table(rows, n_keys=2, titles=titles_of(d.metric for d in found))
        + "\nties: probability that two samples have the same score. kurtosis: 0 for a normal distribution."
    )


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


def _powers(found: Sequence[MetricPower]) -> str:
    rows = [("discriminative power", "significant pairs", "untestable", "samples", "ASL: p-values in order")]
    for m in sorted(found, key=lambda m: -m.power.value):
        p = m.power
        curve = " ".join(_p(value) for value in p.asl[:_ASL_SHOWN]) + (" ..." if len(p.asl) > _ASL_SHOWN else "")
        rows.append(
            (
                m.metric,
                f"{p.n_significant} of {p.n_pairs} ({p.value:.3f})",
                str(p.n_untestable),
                str(m.n_samples),
                curve,
            )
        )
    first = found[0]
    text = text_table(rows, titles=titles_of(m.metric for m in found)) + (
        f"\np-values: randomized Tukey HSD, paired, {first.n_permutations:,} permutations, adjusted for all pairs of a metric, "
        f"significant below {1 - first.power.confidence_level:.3g}"
    )
    for m in found:
        if m.n_uncertain:
            text += (
                f"\n{m.metric}: {m.n_uncertain} p-values are within two Monte Carlo errors of the limit. "
                "Use more permutations."
            )
    return text


def _p(value: float) -> str:
    return f"{value:.1g}" if value < _SMALL_P else f"{value:.3f}"


def _rankings(found: Sequence[SystemRanking], ci: str) -> str:
    rows = [(f"ranking by {found[0].target}", f"Kendall's tau {ci}", "pairs in the same order", "samples")]
    n_pairs = len(found[0].means) * (len(found[0].means) - 1) // 2
    for r in sorted(found, key=lambda r: math.inf if r.tau is None else -r.tau.value):
        samples = f"{r.n_samples}" + (f" ({r.n_incomplete} incomplete)" if r.n_incomplete else "")
        rows.append((r.metric, shown(r.tau), f"{r.n_same_order} of {n_pairs}", samples))
    return (
        text_table(rows, titles=titles_of(r.metric for r in found))
        + f"\ntau: agreement of the rankings of {len(found[0].means)} systems by their means, for these systems and as many "
        "samples. More samples usually increase it."
    )


def _pass_rates(found: Sequence[PassRate], ci: str) -> str:
    rows = [("pass@k", "system", "k", f"probability {ci}", "threshold", "samples")]
    rows += [
        (
            p.metric,
            p.system,
            str(p.k),
            shown(p.rate),
            f"{p.threshold:.3g}",
            f"{0 if p.rate is None else p.rate.n}" + (f" ({p.n_few} with fewer scores)" if p.n_few else ""),
        )
        for p in found
    ]
    return (
        text_table(rows, n_keys=3, titles=titles_of(p.metric for p in found))
        + "\npass@k: probability that at least one of k answers to a question reaches the threshold"
    )


def _flips(found: Sequence[MetricRepeatability], ci: str) -> str:
    head = (
        "repeats",
        "system",
        f"pairs that flip {ci}",
        f"samples with a flip {ci}",
        "SD of a reply",
        "threshold",
        "n",
    )
    rows = [
        head,
        *(
            (
                f.metric,
                f.system,
                _share(f.rate.pairs),
                _share(f.rate.items),
                f"{f.rate.spread:.3f}",
                f"{f.rate.threshold:.3g}",
                f"{f.rate.n} samples, {f.rate.n_replies} scores",
            )
            for f in found
        ),
    ]
    text = text_table(rows, n_keys=2, titles=titles_of(f.metric for f in found))
    for f in found:
        if f.n_unscored or f.n_other_judge:
            text += f"\n{f.metric}, {f.system}: excluded {f.n_unscored} without a score, {f.n_other_judge} of another judge or prompt"
    return text


def _labels(found: Sequence[LabelAgreement], ci: str) -> str:
    head = (
        "agreement with people", "system", "n", f"exact agreement {ci}", f"Cohen's kappa {ci}", f"Krippendorff's alpha {ci}",
        f"Spearman {ci}", f"Kendall {ci}",
    )  # fmt: skip
    rows: list[tuple[str, ...]] = [head]
    rows += (
        (
            a.metric,
            a.system,
            str(a.n),
            "continuous" if not a.categories else _share(a.exact) if a.exact else "undefined",
            "continuous" if not a.categories else _agreement(a.cohen),
            _agreement(a.krippendorff),
            shown(a.spearman),
            shown(a.kendall),
        )
        for a in found
    )
    titles = titles_of(a.metric for a in found)
    text = [text_table(rows, n_keys=2, titles=titles)]
    if any(a.human_mean for a in found):
        head = ("estimated human mean", "system", f"prediction-powered {ci}", f"labels alone {ci}", "judge alone",
                "labels", "judged", "equivalent to")  # fmt: skip
        rows = [head]
        for a in found:
            if (m := a.human_mean) is None:
                continue
            equivalent = "" if m.labels_worth is None else f"{m.labels_worth:.0f} labels"
            rows.append(
                (
                    a.metric,
                    a.system,
                    shown(m.estimate),
                    shown(m.labels_only),
                    f"{m.judge_mean:.3f}",
                    str(m.n_labeled),
                    str(m.n_judged),
                    equivalent,
                )
            )
        text += [
            "",
            text_table(rows, n_keys=2, titles=titles),
            "valid if the labeled samples are a random sample of all samples",
        ]
    notes: dict[str, list[str]] = {}
    for a in found:
        subject = f"{a.metric}, {a.system}"
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
    rows = [("weight in ccrs.composite", f"weight {ci}")]
    rows += [(name, shown(weight)) for name, weight in zip(fit.metrics, fit.weights, strict=True)]
    return (
        text_table(rows, titles=titles_of(fit.metrics))
        + f"\nSpearman correlation with the labels: {_number(fit.rank_correlation)} with weights from other samples (5 folds), "
        f"{_number(fit.equal_weights)} with equal weights, n {fit.n_labels} labels of {fit.n_samples} samples"
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
        for where, share in (("ceiling", d.population.at_high), ("floor", d.population.at_low)):
            if share is not None and share.value >= _CROWDED:
                crowded.setdefault(where, {}).setdefault(d.metric, []).append(f"{share.value:.0%} in {d.system}")
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
            yield f"{a.metric}, {a.system}: agreement with people is not significantly better than chance (kappa {shown(k)})"
        if (m := a.human_mean) is not None and not m.estimate.low <= m.judge_mean <= m.estimate.high:
            side = "above" if m.judge_mean > m.estimate.value else "below"
            yield (
                f"{a.metric}, {a.system}: the judge's mean {m.judge_mean:.3f} is {side} the estimated human mean "
                f"{shown(m.estimate)}. Correct it, or recalibrate the judge."
            )
        if a.people is not None and a.people.coefficient is not None and a.krippendorff.coefficient is not None:
            among_people, judge = a.people.coefficient, a.krippendorff.coefficient
            if judge.value >= among_people.value:
                yield (
                    f"{a.metric}, {a.system}: on these {a.n} samples the judge agrees with people at least as well as people "
                    f"with each other (alpha {shown(judge)}, among people {shown(among_people)})"
                )
