"""Estimators of the probability of an abstention, the prompt of a reader, and the detection of abstentions."""
