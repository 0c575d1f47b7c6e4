"""Statistics: arrays in, named results out; nothing here knows what a sample is."""

from ragstone.stats._agreement import (
    Agreement,
    Rating,
    Ratings,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    landis_koch,
    percent_agreement,
)
from ragstone.stats._bootstrap import bootstrap_interval
from ragstone.stats._combine import Term, weighted_sum_interval
from ragstone.stats._contrast import Contrast, SetMean, contrast
from ragstone.stats._correlation import CorrelationKind, CorrelationMean, fisher_interval, fisher_mean, kendall, pearson
from ragstone.stats._flips import FlipRate, flip_rate
from ragstone.stats._independent import independent_tukey
from ragstone.stats._interval import jeffreys_interval, normal_interval, t_interval
from ragstone.stats._mean import Estimate, failure_bounds, mean_interval, wilson_interval
from ragstone.stats._multiple import DiscriminativePower, EBhResult, HolmResult, discriminative_power, e_bh, holm
from ragstone.stats._online.bernstein import BernsteinSequence
from ragstone.stats._online.betting import BettingSequence
from ragstone.stats._online.common import ConfidenceSequence
from ragstone.stats._online.detector import ShiryaevRobertsDetector
from ragstone.stats._online.streams import DifferenceSequence, ManskiSequence, ProportionSequence
from ragstone.stats._population import Population, pass_at_k, population, tie_probability
from ragstone.stats._power import detectable_difference, paired_power, proportion_sample_size, sample_size
from ragstone.stats._ppi import PredictionPoweredMean, prediction_powered_mean
from ragstone.stats._randomise import PairedEffect, PairedTest, paired_bootstrap, paired_effect, sign_flip_test
from ragstone.stats._rank import average_ranks, bootstrap_mean, bootstrap_spearman, spearman
from ragstone.stats._sequential import beta_mixture_interval
from ragstone.stats._tukey import Alternative, TukeyPair, TukeyResult, randomised_tukey, tukey_preview
from ragstone.stats._weight import hajek_mean, horvitz_thompson_total

__all__ = [
    "Agreement",
    "Alternative",
    "BernsteinSequence",
    "BettingSequence",
    "ConfidenceSequence",
    "Contrast",
    "CorrelationKind",
    "CorrelationMean",
    "DifferenceSequence",
    "DiscriminativePower",
    "EBhResult",
    "Estimate",
    "FlipRate",
    "HolmResult",
    "ManskiSequence",
    "PairedEffect",
    "PairedTest",
    "Population",
    "PredictionPoweredMean",
    "ProportionSequence",
    "Rating",
    "Ratings",
    "SetMean",
    "ShiryaevRobertsDetector",
    "Term",
    "TukeyPair",
    "TukeyResult",
    "average_ranks",
    "beta_mixture_interval",
    "bootstrap_interval",
    "bootstrap_mean",
    "bootstrap_spearman",
    "cohen_kappa",
    "contrast",
    "detectable_difference",
    "discriminative_power",
    "e_bh",
    "failure_bounds",
    "fisher_interval",
    "fisher_mean",
    "fleiss_kappa",
    "flip_rate",
    "hajek_mean",
    "holm",
    "horvitz_thompson_total",
    "independent_tukey",
    "jeffreys_interval",
    "kendall",
    "krippendorff_alpha",
    "landis_koch",
    "mean_interval",
    "normal_interval",
    "paired_bootstrap",
    "paired_effect",
    "paired_power",
    "pass_at_k",
    "pearson",
    "percent_agreement",
    "population",
    "prediction_powered_mean",
    "proportion_sample_size",
    "randomised_tukey",
    "sample_size",
    "sign_flip_test",
    "spearman",
    "t_interval",
    "tie_probability",
    "tukey_preview",
    "weighted_sum_interval",
    "wilson_interval",
]
