"""Trials of repairs: wrong answers are asked for again while what the application retrieves is changed."""
