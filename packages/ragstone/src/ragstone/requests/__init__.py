"""Captured requests: what was asked, what the model saw, what was answered, for live capture and replay."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.requests._assemble import assemble
    from ragstone.requests._block import RequestBlock as RequestBlock
    from ragstone.requests._current import TRACE_ID_KEY as TRACE_ID_KEY
    from ragstone.requests._current import CaptureOptions, EnclosingRun, Recorder, current_request, link_span
    from ragstone.requests._current import read_resource as read_resource
    from ragstone.requests._draft import PassageDraft, TraceDraft
    from ragstone.requests._draft import RetrievalDraft as RetrievalDraft
    from ragstone.requests._harvest import harvest
    from ragstone.requests._hits import read_hits as read_hits
    from ragstone.requests._in_flight import InFlight
    from ragstone.requests._messages import messages_of as messages_of
    from ragstone.requests._observe import RequestBlocks as RequestBlocks
    from ragstone.requests._shape import CALL_PARTS as CALL_PARTS
    from ragstone.requests._shape import RESULT_PARTS as RESULT_PARTS
    from ragstone.requests._shape import TEXT_PARTS as TEXT_PARTS
    from ragstone.requests._shape import content_text as content_text
    from ragstone.requests._shape import finite_number as finite_number
    from ragstone.requests._shape import get as get
    from ragstone.requests._shape import message_body as message_body
    from ragstone.requests._shape import part_text as part_text
    from ragstone.requests._step import (
        Message,
        Request,
        RetrieverTools,
        Statements,
        Step,
        StepKind,
        Value,
    )
    from ragstone.requests._step import read_retriever_tools as read_retriever_tools
    from ragstone.requests._step import text_size as text_size
    from ragstone.requests._tree import find_requests as find_requests

__all__ = [
    "CaptureOptions",
    "EnclosingRun",
    "InFlight",
    "Message",
    "PassageDraft",
    "Recorder",
    "Request",
    "RetrieverTools",
    "Statements",
    "Step",
    "StepKind",
    "TraceDraft",
    "Value",
    "assemble",
    "current_request",
    "harvest",
    "link_span",
]

if not TYPE_CHECKING:  # a type checker sees the imports above
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_assemble": "assemble",
            "_block": "RequestBlock",
            "_current": "TRACE_ID_KEY CaptureOptions EnclosingRun Recorder current_request link_span read_resource",
            "_draft": "PassageDraft TraceDraft RetrievalDraft",
            "_harvest": "harvest",
            "_hits": "read_hits",
            "_in_flight": "InFlight",
            "_messages": "messages_of",
            "_observe": "RequestBlocks",
            "_shape": "CALL_PARTS RESULT_PARTS TEXT_PARTS content_text finite_number get message_body part_text",
            "_step": "Message Request RetrieverTools Statements Step StepKind Value read_retriever_tools text_size",
            "_tree": "find_requests",
        },
    )
