"""Capture of finished requests: redacted traces in the spool, at a cost of microseconds for the application."""

from ragstone._util.exit import register_exit_hook
from ragstone._util.fork import after_fork_in_child
from ragstone._util.guard import Guard, guarded
from ragstone._util.variables import capture_suppressed, suppress_capture
from ragstone.capture._application import Application
from ragstone.capture._capture import Capture, CaptureCounters
from ragstone.capture._convert import Converter
from ragstone.capture._encoded import Redactor, redact_json
from ragstone.capture._explicit import make_draft
from ragstone.capture._ids import IdHasher, Ids, hash_trace_ids
from ragstone.capture._redaction import RedactionError, redact_secrets, redact_trace, safe_redactor

__all__ = [
    "Capture", "Guard", "after_fork_in_child", "capture_suppressed", "guarded", "make_draft", "redact_secrets",
    "register_exit_hook", "suppress_capture",
]  # fmt: skip
