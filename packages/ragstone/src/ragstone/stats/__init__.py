"""Statistics: arrays in, named results out; nothing here knows what a sample is."""

from ragstone.stats._combine import Term, weighted_sum_interval
from ragstone.stats._mean import Estimate, failure_bounds, mean_interval, wilson_interval
from ragstone.stats._rank import average_ranks, bootstrap_mean, bootstrap_spearman, spearman
from ragstone.stats._sequential import beta_mixture_interval

__all__ = [
    "Estimate",
    "Term",
    "average_ranks",
    "beta_mixture_interval",
    "bootstrap_mean",
    "bootstrap_spearman",
    "failure_bounds",
    "mean_interval",
    "spearman",
    "weighted_sum_interval",
    "wilson_interval",
]
