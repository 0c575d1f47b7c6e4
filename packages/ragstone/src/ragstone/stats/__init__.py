"""Statistics: arrays in, named results out; nothing here knows what a sample is."""

from ragstone.stats._mean import Estimate, failure_bounds, mean_interval, wilson_interval

__all__ = ["Estimate", "failure_bounds", "mean_interval", "wilson_interval"]
