"""Captured requests: what was asked, what the model saw, what was answered, for live capture and replay."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.requests._assemble import assemble
    from ragstone.requests._block import RequestBlock
    from ragstone.requests._change import RetrievalChange, RetrievalStage, changed_results, changed_retrieval
    from ragstone.requests._current import (
        TRACE_ID_KEY,
        CaptureOptions,
        EnclosingRun,
        Recorder,
        current_request,
        link_span,
        read_resource,
    )
    from ragstone.requests._draft import PassageDraft, RetrievalDraft, TraceDraft
    from ragstone.requests._harvest import harvest
    from ragstone.requests._hits import read_hits
    from ragstone.requests._in_flight import InFlight
    from ragstone.requests._messages import messages_of
    from ragstone.requests._observe import RequestBlocks
    from ragstone.requests._shape import (
        CALL_PARTS,
        RESULT_PARTS,
        TEXT_PARTS,
        calls_tool,
        content_text,
        finite_number,
        get,
        message_body,
        part_text,
    )
    from ragstone.requests._step import (
        Message,
        Request,
        RetrieverTools,
        Step,
        StepKind,
        Value,
        read_retriever_tools,
        text_size,
    )
    from ragstone.requests._tree import find_requests

__all__ = [
    "CaptureOptions", "EnclosingRun", "InFlight", "Message", "PassageDraft", "Recorder", "Request", "RetrievalStage",
    "RetrieverTools", "Step", "StepKind", "TraceDraft", "Value", "assemble", "changed_results", "current_request",
    "harvest", "link_span",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker sees the imports above
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_assemble": "assemble",
            "_block": "RequestBlock",
            "_change": "RetrievalChange RetrievalStage changed_results changed_retrieval",
            "_current": "TRACE_ID_KEY CaptureOptions EnclosingRun Recorder current_request link_span read_resource",
            "_draft": "PassageDraft TraceDraft RetrievalDraft",
            "_harvest": "harvest",
            "_hits": "read_hits",
            "_in_flight": "InFlight",
            "_messages": "messages_of",
            "_observe": "RequestBlocks",
            "_shape": "CALL_PARTS RESULT_PARTS TEXT_PARTS calls_tool content_text finite_number get message_body part_text",
            "_step": "Message Request RetrieverTools Step StepKind Value read_retriever_tools text_size",
            "_tree": "find_requests",
        },
    )
