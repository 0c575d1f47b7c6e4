"""One request, the same trace: through a block, LangChain, LlamaIndex and the conventions of recorded traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ragstone.reading import BufferedTrace
from ragstone.reading.otlp import OtelSpan, traces_of
from ragstone.requests import TraceDraft
from ragstone.testing import MemoryRecorder
from request_steps import ANSWER, QUESTION, A, B, C, D, prompt

TRACE = "0af7651916cd43dd8448eb211c80319c"
FOUND = {"a": A, "b": B, "c": C, "d": D}
USED = ("c", "a")
"""What the reranker left, in its order."""
PROMPT = prompt(*(FOUND[name] for name in USED))
MODEL, INPUT_TOKENS, OUTPUT_TOKENS = "gpt-5", 120, 12


def _hits(names: Any = FOUND) -> list[dict[str, str]]:
    return [{"id": name, "text": FOUND[name]} for name in names]


def _summary(trace: Any) -> dict[str, Any]:
    """What the same request must have in common, wherever it was captured."""
    (retrieval,) = trace.retrievals
    contexts = retrieval.passages if trace.contexts is None else trace.contexts
    counted = trace if isinstance(trace, TraceDraft) else trace.usage
    tokens = (counted.input_tokens, counted.output_tokens)
    return {
        "query": trace.query,
        "found": [(passage.id, passage.text) for passage in retrieval.passages],
        "contexts": [(passage.id, passage.text) for passage in contexts],
        "response": trace.response,
        "model": trace.model,
        "tokens": tokens,
        "status": trace.status,
        "rule": trace.evidence.contexts,
        "doubts": trace.evidence.doubts,
    }


EXPECTED = {
    "query": QUESTION,
    "found": list(FOUND.items()),
    "contexts": [(name, FOUND[name]) for name in USED],
    "response": ANSWER,
    "model": MODEL,
    "tokens": (INPUT_TOKENS, OUTPUT_TOKENS),
    "status": "ok",
    "rule": "in_prompt",
    "doubts": (),
}


def _block() -> Any:
    recorder = MemoryRecorder()
    usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS}
    reply = {"model": MODEL, "usage": usage, "choices": [{"index": 0, "message": {"content": ANSWER}}]}
    with recorder.request(QUESTION) as r:
        r.found(_hits())
        r.prompt([{"role": "user", "content": PROMPT}])
        r.answer(reply)
    return recorder.drafts[0]


def _read(*attributes: dict[str, Any]) -> Any:
    """Read four spans: the root, and within it the search, the reranker and the model."""
    names = ("ask", "search", "rerank", "chat")
    ended = (9.0, 2.5, 3.5, 4.5)
    spans = [
        OtelSpan(
            trace_id=TRACE,
            span_id=f"{i + 1:016x}",
            parent_id=f"{1:016x}" if i else None,
            name=names[i],
            started_at=float(i + 1),
            ended_at=ended[i],
            attributes=one,
            events=(),
        )
        for i, one in enumerate(attributes)
    ]
    (trace,) = traces_of(
        BufferedTrace(seq=0, trace_id=TRACE, spans=tuple(span.staged().body for span in spans), is_cut=False)
    )
    return trace


def _documents(prefix: str, names: Any) -> dict[str, str]:
    return {
        f"{prefix}.{i}.document.{key}": value
        for i, name in enumerate(names)
        for key, value in (("id", name), ("content", FOUND[name]))
    }


def _openinference() -> Any:
    return _read(
        {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER},
        {
            "openinference.span.kind": "RETRIEVER",
            "input.value": QUESTION,
            **_documents("retrieval.documents", FOUND),
        },
        {
            "openinference.span.kind": "RERANKER",
            "reranker.query": QUESTION,
            **_documents("reranker.input_documents", FOUND),
            **_documents("reranker.output_documents", USED),
        },
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": MODEL,
            "llm.token_count.prompt": INPUT_TOKENS,
            "llm.token_count.completion": OUTPUT_TOKENS,
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": PROMPT,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": ANSWER,
        },
    )


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _genai_documents(names: Any) -> str:
    return json.dumps([{"id": name, "content": FOUND[name]} for name in names])


def _genai() -> Any:
    return _read(
        {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.input.messages": _message("user", QUESTION),
            "gen_ai.output.messages": _message("assistant", ANSWER),
        },
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.query.text": QUESTION,
            "gen_ai.retrieval.documents": _genai_documents(FOUND),
        },
        {"gen_ai.operation.name": "rerank", "gen_ai.retrieval.documents": _genai_documents(USED)},
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.response.model": MODEL,
            "gen_ai.usage.input_tokens": INPUT_TOKENS,
            "gen_ai.usage.output_tokens": OUTPUT_TOKENS,
            "gen_ai.input.messages": _message("user", PROMPT),
            "gen_ai.output.messages": _message("assistant", ANSWER),
        },
    )


def _traceloop() -> Any:
    def nodes(names: Any) -> str:
        return json.dumps([json.dumps({"node": {"id_": name, "text": FOUND[name]}, "score": None}) for name in names])

    asked = {"query_bundle": {"query_str": QUESTION}}
    return _read(
        {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.input": json.dumps({"question": QUESTION}),
            "traceloop.entity.output": json.dumps({"answer": ANSWER}),
        },
        {
            "traceloop.span.kind": "task",
            "traceloop.entity.input": json.dumps(asked),
            "traceloop.entity.output": nodes(FOUND),
        },
        {
            "traceloop.span.kind": "task",
            "traceloop.entity.input": json.dumps({"nodes": json.loads(nodes(FOUND)), **asked}),
            "traceloop.entity.output": nodes(USED),
        },
        {
            "traceloop.association.properties.session": "s",
            "gen_ai.operation.name": "chat",
            "gen_ai.response.model": MODEL,
            "gen_ai.usage.prompt_tokens": INPUT_TOKENS,
            "gen_ai.usage.completion_tokens": OUTPUT_TOKENS,
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": PROMPT,
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": ANSWER,
        },
    )


def _mlflow() -> Any:
    def documents(names: Any) -> str:
        return json.dumps([{"page_content": FOUND[name], "metadata": {}, "id": name} for name in names])

    def span(kind: str, given: Any, got: Any, **more: Any) -> dict[str, str]:
        values = {"spanType": kind, "spanInputs": given, "spanOutputs": got, **more}
        return {
            f"mlflow.{name}": value if name == "spanOutputs" and isinstance(value, str) else json.dumps(value)
            for name, value in values.items()
        }

    return _read(
        span("CHAIN", {"question": QUESTION}, {"answer": ANSWER}),
        span("RETRIEVER", {"query": QUESTION}, documents(FOUND)),
        span("RERANKER", {"query": QUESTION, "documents": json.loads(documents(FOUND))}, documents(USED)),
        {
            **span(
                "CHAT_MODEL",
                {"model": MODEL, "messages": [{"role": "user", "content": PROMPT}]},
                {"choices": [{"message": {"role": "assistant", "content": ANSWER}}]},
            ),
            "mlflow.llm.model": json.dumps(MODEL),
            "mlflow.chat.tokenUsage": json.dumps({"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}),
        },
    )


def _langfuse() -> Any:
    def observation(kind: str, given: Any, got: Any) -> dict[str, str]:
        values = {"type": kind, "input": given, "output": got}
        return {
            f"langfuse.observation.{name}": value if isinstance(value, str) else json.dumps(value)
            for name, value in values.items()
        }

    usage = {"input": INPUT_TOKENS, "output": OUTPUT_TOKENS}
    return _read(
        observation("chain", {"question": QUESTION}, {"answer": ANSWER}),
        observation("retriever", QUESTION, _hits()),
        observation("chain", _hits(), _hits(USED)),
        {
            **observation(
                "generation", [{"role": "user", "content": PROMPT}], {"role": "assistant", "content": ANSWER}
            ),
            "langfuse.observation.model.name": MODEL,
            "langfuse.observation.usage_details": json.dumps(usage),
        },
    )


def _langchain() -> Any:
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnableLambda

    from langchain_ragstone import RagstoneCallbackHandler

    class Search(BaseRetriever):
        """Finds the four passages."""

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(page_content=text, id=name) for name, text in FOUND.items()]

    def rerank(documents: list[Document]) -> str:
        texts = {document.id: document.page_content for document in documents}
        return prompt(*(texts[name] for name in USED))

    counts = {
        "input_tokens": INPUT_TOKENS,
        "output_tokens": OUTPUT_TOKENS,
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    }
    message = AIMessage(ANSWER, usage_metadata=counts, response_metadata={"model_name": MODEL})
    chain = Search() | RunnableLambda(rerank) | GenericFakeChatModel(messages=iter([message])) | StrOutputParser()
    recorder = MemoryRecorder()
    chain.invoke(QUESTION, config={"callbacks": [RagstoneCallbackHandler(recorder)]})
    return recorder.drafts[0]


def _llama_index() -> Any:
    pytest.importorskip("llama_index.core")
    from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
    from llama_index.core.llms import CustomLLM
    from llama_index.core.llms.callbacks import llm_completion_callback
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.response_synthesizers import get_response_synthesizer
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    from llama_index.observability.ragstone import RagstoneInstrumentor

    class Search(BaseRetriever):
        """Finds the four passages."""

        def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            return [NodeWithScore(node=TextNode(text=text, id_=name)) for name, text in FOUND.items()]

    class Rerank(BaseNodePostprocessor):
        """Keeps two of them."""

        def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: Any = None) -> list[NodeWithScore]:
            named = {node.node.node_id: node for node in nodes}
            return [named[name] for name in USED]

    class Model(CustomLLM):
        """Says the answer, and what it cost."""

        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(model_name=MODEL)

        @llm_completion_callback()
        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
            usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS}
            return CompletionResponse(text=ANSWER, raw={"usage": usage})

        @llm_completion_callback()
        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            raise NotImplementedError

    recorder = MemoryRecorder()
    instrumentor = RagstoneInstrumentor(recorder)
    instrumentor.start_registering()
    try:
        synthesizer = get_response_synthesizer(llm=Model())
        RetrieverQueryEngine(Search(), response_synthesizer=synthesizer, node_postprocessors=[Rerank()]).query(QUESTION)
    finally:
        instrumentor.stop_registering()
    return recorder.drafts[0]


@pytest.mark.parametrize(
    "capture", [_block, _langchain, _llama_index, _openinference, _genai, _traceloop, _mlflow, _langfuse]
)
def test_one_request_is_the_same_trace(capture: Callable[[], Any]) -> None:
    """Query, passages with ids, response, model, tokens and the rule do not depend on the way of capture."""
    assert _summary(capture()) == EXPECTED
