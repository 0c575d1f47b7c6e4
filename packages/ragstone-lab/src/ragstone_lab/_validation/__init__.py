"""Validation of metrics on a user's outcomes."""
