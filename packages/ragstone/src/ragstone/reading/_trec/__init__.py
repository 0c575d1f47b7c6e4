"""File formats of retrieval research: TREC runs, TREC qrels and BEIR datasets."""
