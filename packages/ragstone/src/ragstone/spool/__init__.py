"""Spool: local queue files for captured traces. Each writer appends segments, and the owner of the store reads them."""

from ragstone.spool._format import frame_line as frame_line
from ragstone.spool._reader import SegmentState as SegmentState
from ragstone.spool._reader import SpoolReader as SpoolReader
from ragstone.spool._reader import parse_line as parse_line
from ragstone.spool._writer import SpoolWriter as SpoolWriter

__all__ = []
