"""Comparison of systems: aligned scores, tests of differences, hypotheses and regression gates."""
