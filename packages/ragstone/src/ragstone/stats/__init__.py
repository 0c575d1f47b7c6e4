"""Statistics: functions of arrays that return named results, independent of samples and metrics."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.stats._agreement import (
        Agreement,
        cohen_kappa,
        fleiss_kappa,
        krippendorff_alpha,
        landis_koch,
        percent_agreement,
    )
    from ragstone.stats._alarms import BETS, QUARTER_S, AlarmBudget, CalendarDetector
    from ragstone.stats._bootstrap import bootstrap_interval
    from ragstone.stats._cluster import DesignEffect, cluster_codes, design_effect
    from ragstone.stats._combine import WeightedTerm, weighted_sum_interval
    from ragstone.stats._contrast import GroupDifference, compare_groups
    from ragstone.stats._correlation import (
        CorrelationKind,
        CorrelationMean,
        correlate,
        fisher_mean,
        kendall,
        pearson,
        spearman,
    )
    from ragstone.stats._flips import FlipRate, flip_rate
    from ragstone.stats._independent import independent_differences
    from ragstone.stats._judge_errors import JudgeErrors, judge_errors, rogan_gladen
    from ragstone.stats._labeled import PredictionPoweredMean, drawn_kappa, drawn_prediction_powered_mean
    from ragstone.stats._mean import Estimate, failure_bounds, mean_interval, wilson_interval
    from ragstone.stats._median import estimate_median
    from ragstone.stats._multiple import DiscriminativePower, discriminative_power, holm
    from ragstone.stats._population import Description, describe, pass_at_k
    from ragstone.stats._sign_flips import FamilyResult, PairResult, paired_effect, simultaneous_differences
    from ragstone.stats._stopped import beta_mixture_interval, stopped_proportion, stopping_paths
    from ragstone.stats._system_rank import kendall_of_means
    from ragstone.stats._variance import VarianceSplit, split_variance
    from ragstone.stats._weight import estimate_mean, hajek_mean

__all__ = [
    "Agreement", "AlarmBudget", "CalendarDetector", "Estimate", "bootstrap_interval", "cohen_kappa",
    "design_effect", "fleiss_kappa", "flip_rate", "hajek_mean", "holm", "kendall", "krippendorff_alpha",
    "landis_koch", "mean_interval", "pass_at_k", "pearson", "percent_agreement", "simultaneous_differences",
    "spearman", "split_variance", "wilson_interval",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_agreement": "Agreement cohen_kappa fleiss_kappa krippendorff_alpha landis_koch percent_agreement",
            "_bootstrap": "bootstrap_interval",
            "_cluster": "DesignEffect cluster_codes design_effect",
            "_combine": "WeightedTerm weighted_sum_interval",
            "_contrast": "GroupDifference compare_groups",
            "_correlation": "CorrelationKind CorrelationMean correlate fisher_mean kendall pearson spearman",
            "_flips": "FlipRate flip_rate",
            "_independent": "independent_differences",
            "_judge_errors": "JudgeErrors judge_errors rogan_gladen",
            "_labeled": "PredictionPoweredMean drawn_kappa drawn_prediction_powered_mean",
            "_mean": "Estimate mean_interval wilson_interval failure_bounds",
            "_median": "estimate_median",
            "_multiple": "DiscriminativePower discriminative_power holm",
            "_alarms": "BETS QUARTER_S AlarmBudget CalendarDetector",
            "_population": "Description describe pass_at_k",
            "_sign_flips": "FamilyResult PairResult paired_effect simultaneous_differences",
            "_stopped": "beta_mixture_interval stopped_proportion stopping_paths",
            "_system_rank": "kendall_of_means",
            "_variance": "VarianceSplit split_variance",
            "_weight": "estimate_mean hajek_mean",
        },
    )
