"""Capture: finished requests in, redacted traces in the spool, in microseconds of the application's time."""

from ragstone._util.exit import before_exit
from ragstone._util.fork import after_fork_in_child
from ragstone._util.guard import Guard, guarded
from ragstone._util.suppress import capture_suppressed, suppress_capture
from ragstone.capture._capture import Capture, CaptureCounters
from ragstone.capture._convert import CaptureLimits
from ragstone.capture._draft import PassageDraft, Recorder, SearchDraft, TraceDraft
from ragstone.capture._explicit import draft_from
from ragstone.capture._redaction import Redactor, redact_secrets
from ragstone.capture._redaction import redacted as redacted
from ragstone.capture._redaction import redacted_value as redacted_value

__all__ = [
    "Capture",
    "CaptureCounters",
    "CaptureLimits",
    "Guard",
    "PassageDraft",
    "Recorder",
    "Redactor",
    "SearchDraft",
    "TraceDraft",
    "after_fork_in_child",
    "before_exit",
    "capture_suppressed",
    "draft_from",
    "guarded",
    "redact_secrets",
    "suppress_capture",
]
