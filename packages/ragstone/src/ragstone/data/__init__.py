"""Data sets: files, rows and runs of other tools into samples."""

from ragstone.data._read import Rejection as Rejection
from ragstone.data._read import SampleSource, read_samples
from ragstone.data._read import iterate_rows as iterate_rows
from ragstone.data._read import unreadable as unreadable
from ragstone.data._trec.beir import read_beir, write_beir
from ragstone.data._trec.qrels import read_qrels, write_trec_qrels
from ragstone.data._trec.run import read_trec_run, write_trec_run
from ragstone.data._trec.samples import QrelsSource

__all__ = [
    "QrelsSource",
    "SampleSource",
    "read_beir",
    "read_qrels",
    "read_samples",
    "read_trec_run",
    "write_beir",
    "write_trec_qrels",
    "write_trec_run",
]
