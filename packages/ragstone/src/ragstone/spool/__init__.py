"""Spool: local queue files for captured traces. Each writer appends segments, and the owner of the store reads them."""

from ragstone.spool._reader import Batch, SegmentState, SpoolReader
from ragstone.spool._writer import SpoolWriter

__all__ = ["Batch", "SegmentState", "SpoolReader", "SpoolWriter"]
