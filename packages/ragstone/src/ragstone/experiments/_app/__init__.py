"""Runs an application over a dataset under capture: how it is called, what is kept, how repeats are merged."""
