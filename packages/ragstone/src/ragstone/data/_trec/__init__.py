"""Runs and qrels in the files that retrieval research exchanges: TREC and BEIR."""
