"""Statistics: arrays in, named results out; nothing here knows what a sample is."""

from ragstone.stats._combine import Term, weighted_sum_interval
from ragstone.stats._mean import Estimate, failure_bounds, mean_interval, wilson_interval
from ragstone.stats._multiple import DiscriminativePower, EBhResult, HolmResult, discriminative_power, e_bh, holm
from ragstone.stats._rank import average_ranks, bootstrap_mean, bootstrap_spearman, spearman
from ragstone.stats._sequential import beta_mixture_interval
from ragstone.stats._tukey import Alternative, TukeyPair, TukeyResult, randomised_tukey, tukey_preview

__all__ = [
    "Alternative",
    "DiscriminativePower",
    "EBhResult",
    "Estimate",
    "HolmResult",
    "Term",
    "TukeyPair",
    "TukeyResult",
    "average_ranks",
    "beta_mixture_interval",
    "bootstrap_mean",
    "bootstrap_spearman",
    "discriminative_power",
    "e_bh",
    "failure_bounds",
    "holm",
    "mean_interval",
    "randomised_tukey",
    "spearman",
    "tukey_preview",
    "weighted_sum_interval",
    "wilson_interval",
]
