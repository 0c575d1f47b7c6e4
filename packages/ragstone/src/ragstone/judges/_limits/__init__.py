"""Limits of an endpoint, and the order of requests."""
