"""UDCG beyond a single sample: learning its weights, correlating it with graded answers, ranking by it."""
