"""Spool: local queue files for captured traces. Each writer appends segments, and the owner of the store reads them."""

from ragstone.spool._reader import SegmentState, SpoolReader, parse_line
from ragstone.spool._writer import SpoolWriter

__all__ = []
