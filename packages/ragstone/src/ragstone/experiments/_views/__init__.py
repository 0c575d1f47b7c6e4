"""Builds the views of results: signals and causes of single answers, the verdict, and the answers to look at."""
