"""Data sets in the manner of CRUX, made from a user's own documents or reference reports."""
