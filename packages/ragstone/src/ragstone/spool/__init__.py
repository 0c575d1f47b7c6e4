"""Spool: what capture acknowledges. Append-only segments, one writer a process, drained by the owner of the store."""

from ragstone.spool._reader import Batch, SegmentState, SpoolReader
from ragstone.spool._writer import SpoolWriter

__all__ = ["Batch", "SegmentState", "SpoolReader", "SpoolWriter"]
