"""Datasets: reads files, rows, and runs of other tools as samples."""

from ragstone.data._read import RejectedRow as RejectedRow
from ragstone.data._read import SampleSource as SampleSource
from ragstone.data._read import build_rows_error as build_rows_error
from ragstone.data._read import iter_rows as iter_rows
from ragstone.data._read import iter_samples as iter_samples
from ragstone.data._read import read_samples
from ragstone.data._trec.beir import read_beir, write_beir
from ragstone.data._trec.qrels import read_qrels, write_trec_qrels
from ragstone.data._trec.run import read_trec_run, write_trec_run
from ragstone.data._trec.samples import QrelsSource as QrelsSource

__all__ = [
    "read_beir",
    "read_qrels",
    "read_samples",
    "read_trec_run",
    "write_beir",
    "write_trec_qrels",
    "write_trec_run",
]
