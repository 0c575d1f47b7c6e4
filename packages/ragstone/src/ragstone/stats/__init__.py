"""Statistics: arrays in, named results out; nothing here knows what a sample is."""

from ragstone.stats._agreement import (
    Agreement,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    landis_koch,
    percent_agreement,
)
from ragstone.stats._bootstrap import bootstrap_interval
from ragstone.stats._combine import Term, weighted_sum_interval
from ragstone.stats._contrast import Contrast, contrast
from ragstone.stats._correlation import CorrelationKind, CorrelationMean, fisher_interval, fisher_mean, kendall, pearson
from ragstone.stats._flips import FlipRate, flip_rate
from ragstone.stats._independent import independent_tukey
from ragstone.stats._mean import Estimate, failure_bounds, mean_interval, wilson_interval
from ragstone.stats._multiple import DiscriminativePower, discriminative_power, holm
from ragstone.stats._online.bernstein import BernsteinSequence
from ragstone.stats._online.betting import BettingSequence
from ragstone.stats._online.detector import ShiryaevRobertsDetector
from ragstone.stats._online.streams import DifferenceSequence, ManskiSequence, ProportionSequence
from ragstone.stats._population import Population, pass_at_k, population
from ragstone.stats._ppi import PredictionPoweredMean, prediction_powered_mean
from ragstone.stats._randomise import paired_bootstrap, paired_effect, sign_flip_test
from ragstone.stats._rank import bootstrap_mean, bootstrap_spearman, spearman
from ragstone.stats._sequential import beta_mixture_interval
from ragstone.stats._tukey import TukeyPair, randomised_tukey
from ragstone.stats._weight import hajek_mean

__all__ = [
    "Agreement",
    "BernsteinSequence",
    "BettingSequence",
    "Contrast",
    "CorrelationKind",
    "CorrelationMean",
    "DifferenceSequence",
    "DiscriminativePower",
    "Estimate",
    "FlipRate",
    "ManskiSequence",
    "Population",
    "PredictionPoweredMean",
    "ProportionSequence",
    "ShiryaevRobertsDetector",
    "Term",
    "TukeyPair",
    "beta_mixture_interval",
    "bootstrap_interval",
    "bootstrap_mean",
    "bootstrap_spearman",
    "cohen_kappa",
    "contrast",
    "discriminative_power",
    "failure_bounds",
    "fisher_interval",
    "fisher_mean",
    "fleiss_kappa",
    "flip_rate",
    "hajek_mean",
    "holm",
    "independent_tukey",
    "kendall",
    "krippendorff_alpha",
    "landis_koch",
    "mean_interval",
    "paired_bootstrap",
    "paired_effect",
    "pass_at_k",
    "pearson",
    "percent_agreement",
    "population",
    "prediction_powered_mean",
    "randomised_tukey",
    "sign_flip_test",
    "spearman",
    "weighted_sum_interval",
    "wilson_interval",
]
