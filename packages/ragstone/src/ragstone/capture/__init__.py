"""Capture of finished requests: redacted traces in the spool, at a cost of microseconds for the application."""

from ragstone._util.exit import register_exit_hook
from ragstone._util.fork import after_fork_in_child
from ragstone._util.guard import Guard, guarded
from ragstone._util.variables import capture_suppressed, suppress_capture
from ragstone.capture._application import Application as Application
from ragstone.capture._capture import Capture
from ragstone.capture._capture import CaptureCounters as CaptureCounters
from ragstone.capture._convert import Converter as Converter
from ragstone.capture._encoded import Redactor as Redactor
from ragstone.capture._encoded import redact_json as redact_json
from ragstone.capture._explicit import make_draft
from ragstone.capture._ids import IdHasher as IdHasher
from ragstone.capture._ids import Ids as Ids
from ragstone.capture._ids import hash_trace_ids as hash_trace_ids
from ragstone.capture._redaction import RedactionError as RedactionError
from ragstone.capture._redaction import redact_secrets
from ragstone.capture._redaction import redact_trace as redact_trace
from ragstone.capture._redaction import safe_redactor as safe_redactor

__all__ = [
    "Capture",
    "Guard",
    "after_fork_in_child",
    "capture_suppressed",
    "guarded",
    "make_draft",
    "redact_secrets",
    "register_exit_hook",
    "suppress_capture",
]
