"""CRUX-style datasets from a user's documents or reference reports."""
