"""The metrics themselves, evaluated on a user's outcomes."""
