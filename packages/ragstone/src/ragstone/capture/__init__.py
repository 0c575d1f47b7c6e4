"""Capture: finished requests in, redacted traces in the spool, in microseconds of the application's time."""

from ragstone.capture._draft import PassageDraft, Recorder, SearchDraft, TraceDraft

__all__ = ["PassageDraft", "Recorder", "SearchDraft", "TraceDraft"]
