"""Experiments with UDCG: fitting its weights, correlation with graded answers, and ranking."""
