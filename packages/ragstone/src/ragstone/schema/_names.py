"""The names under which applications, frameworks and files keep a question, an answer, passages and their parts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, Literal

Door = Literal["row", "input", "output", "hit"]
"""Where a name is read: the row of a dataset, the inputs or outputs of a step, a hit of a vector database."""

NamedField = Literal["query", "response", "contexts", "text", "id", "score"]

MessageRole = Literal["user", "assistant", "system", "tool"]

MESSAGE_ROLES: Final[Mapping[str, MessageRole]] = {
    "human": "user", "user": "user", "ai": "assistant", "assistant": "assistant", "model": "assistant", "chatbot": "assistant",
    "agent": "assistant", "gpt": "assistant",
    "system": "system", "developer": "system", "tool": "tool", "function": "tool", "tool-call": "assistant",
    "tool-response": "tool", "function_call": "assistant", "custom_tool_call": "assistant",
    "function_call_output": "tool", "custom_tool_call_output": "tool",
}  # fmt: skip
"""Our name of each role of a message, by the name in a chat format, or by the type of an item without a role."""

_EVERY: Final = frozenset({"row", "input", "output", "hit"})
_ROW: Final = frozenset({"row"})
_INPUT: Final = frozenset({"input"})
_OUTPUT: Final = frozenset({"output"})
_HIT: Final = frozenset({"hit"})

_NAMES: Final[dict[NamedField, tuple[tuple[frozenset[str], tuple[str, ...]], ...]]] = {
    "query": (
        (_EVERY, ("query", "question", "user_input", "input")),
        (_INPUT | _OUTPUT, ("user_query", "user_question", "utterance")),
        (_ROW | _INPUT, ("inputs", "prompt")),
        (
            _INPUT,
            (
                "query_str", "str_or_query_bundle", "query_bundle", "message", "messages", "user_msg", "task",
                "start_event", "kwargs", "args", "data",
            ),
        ),
    ),
    "response": (
        (_EVERY, ("response", "answer", "output", "result")),
        (_ROW, ("actual_output", "prediction")),
        (_ROW | _OUTPUT, ("outputs",)),
        (
            _OUTPUT,
            (
                "generation", "output_text", "final_result", "parsed", "raw", "replies", "text", "content", "message", "messages",
                "structured_response",
            ),
        ),
    ),
    "contexts": (
        (_EVERY, ("contexts", "context", "retrieved_contexts", "documents", "source_documents", "source_nodes")),
        (_ROW, ("retrieval_context", "retrieved_context", "passages")),
        (_OUTPUT, ("docs",)),
    ),
    "text": (
        (_EVERY, ("text", "page_content", "pageContent", "content")),
        (_ROW | _HIT, ("chunk", "body", "passage", "document", "snippet", "page", "contents", "chunk_text", "passage_text", "document.content")),
    ),
    "id": (
        (_EVERY, ("id", "doc_id", "chunk_id", "node_id", "document_id", "passage_id")),
        (_ROW | _HIT, ("_id", "id_", "docid", "uuid")),
    ),
    "score": (
        (_EVERY, ("relevance_score", "score")),
        (_HIT, ("_score", "similarity")),
    ),
}  # fmt: skip


TOKEN_NAMES: Final = (
    (
        "input_tokens", "prompt_tokens", "prompt_token_count", "promptTokenCount", "inputTokens", "prompt_eval_count",
        "input", "prompt",
    ),
    (
        "output_tokens", "completion_tokens", "candidates_token_count", "candidatesTokenCount", "outputTokens",
        "eval_count", "output", "completion",
    ),
)  # fmt: skip
"""Names of the numbers of tokens that a model read, and of those that it wrote."""

SETTING_NAMES: Final = frozenset(
    {
        "name", "run_name", "run_id", "run_type", "id", "type", "class_name", "tags", "metadata", "config", "configurable",
        "callbacks", "model", "model_name", "session_id", "thread_id", "conversation_id", "user_id", "stream_mode", "stop",
    }
)  # fmt: skip
"""Names of texts that describe a step, its run or its model. They are neither what it was asked nor what it found."""


def message_role(name: object) -> MessageRole | None:
    """Return our name of a role of a message, from that of a chat format or from a class of LangChain's messages.

    Examples:
        >>> message_role("human"), message_role("AIMessageChunk"), message_role("editor")
        ('user', 'assistant', None)
    """
    if not isinstance(name, str):
        return None
    return MESSAGE_ROLES.get(name) or MESSAGE_ROLES.get(name.removesuffix("Chunk").removesuffix("Message").lower())


ROW_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id", "sample_id", "query_id", "question_id", "_id"),
    "history": ("history", "chat_history"),
    "messages": ("messages",),
    "reference": (
        "reference", "references", "ground_truth", "ground_truths", "expected_output", "reference_outputs", "expected",
        "expectations", "gt_answer", "reference_answer",
    ),
    "sub_questions": ("sub_questions", "subquestions"),
    "qrels": ("qrels",),
    "ratings": ("ratings",),
}  # fmt: skip
"""Names of the other fields of a sample in the row of a dataset."""

ROW_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("qid", "interaction_id", "example_id"),
    "query": ("user_query", "user_question"),
    "contexts": (
        "retrieved_contents", "retrieved_documents", "retrieved_docs", "retrieved_passages", "retrieved_chunks",
        "retrieved_texts", "retrieval_contexts", "retrieved_nodes", "source_passages", "hits",
        "search_results", "retrieved",
    ),
    "response": (
        "generated_answer", "generated_texts", "generated_text", "generated_response", "generated_output", "model_answer",
        "model_response", "model_output", "predicted_answer", "system_answer", "system_response", "rag_answer",
        "rag_response", "llm_answer", "llm_response", "llm_output", "actual_response", "actual_answer", "final_answer",
    ),
    "reference": (
        "expected_answer", "expected_answers", "expected_response", "generation_gt", "gold_answer", "gold_answers",
        "golden_answer", "golden_answers", "correct_answer", "correct_answers", "reference_answers", "reference_response",
        "ideal_answer", "ideal_answers", "true_answer", "target_answer", "answer_gt", "gt_answers",
    ),
}  # fmt: skip
"""Names with one meaning, which are read if the row does not have one of the names above."""

ROW_GUESSES: Final[Mapping[str, tuple[str, ...]]] = {
    "query": (
        "q", "body", "topic", "title", "instruction", "search_query", "utterance", "message", "request", "user_message",
        "task", "problem", "text", "user", "customer", "frage", "pregunta", "pergunta", "domanda", "vraag",
        "\u95ee\u9898", "\u8cea\u554f",
    ),
    "contexts": (
        "evidence", "evidences", "evidence_list", "matches", "points", "paragraphs", "snippets", "sources", "chunks", "nodes", "docs",
        "references", "positive", "facts", "gold_contexts", "gold_context", "reference_contexts", "ground_truth_context",
        "ground_truth_contexts", "text", "passage", "document", "chunk", "content", "ctx", "ctxs",
        "kontext", "contexto", "contexte", "contesto", "fundstellen", "fragmentos", "extraits", "\u53c2\u7167\u6587\u66f8", "\u4e0a\u4e0b\u6587", "\u68c0\u7d22\u7247\u6bb5",
        "\u30b3\u30f3\u30c6\u30ad\u30b9\u30c8", "snippet",
    ),
    "response": (
        "completion", "reply", "generation", "generations", "summary", "hypothesis", "candidate", "pred", "predictions",
        "assistant", "bot", "chatbot", "model", "system", "llm", "gpt", "got", "raw", "antwort", "respuesta", "resposta",
        "risposta", "antwoord", "candidates", "choices", "filtered_resps", "text", "\u56de\u7b54", "\u6a21\u578b\u56de\u7b54",
    ),
    "reference": (
        "gold", "golden", "gt", "truth", "correction", "ref", "refs", "target", "targets", "label", "labels", "solution", "answers", "alt_ans",
        "short_answer", "short_answers", "exact_answer", "ideal", "correct", "musterantwort", "referenzantwort",
        "musterl\u00f6sung", "respuesta_correcta", "\u6807\u51c6\u7b54\u6848",
        "\u53c2\u8003\u7b54\u6848", "\u6b63\u89e3",
    ),
}  # fmt: skip
"""Names with several meanings. They are not read, and the report says which field they may be."""


@cache
def field_names(field: NamedField, door: Door) -> tuple[str, ...]:
    """Return the names of a field that a door knows, in the order in which they are tried, ours first.

    Rows raise if two of the names disagree. The other doors take the first name with a value. An attribute that only
    one producer writes stays in the reader of that producer.

    Examples:
        >>> field_names("id", "output")
        ('id', 'doc_id', 'chunk_id', 'node_id', 'document_id', 'passage_id')
    """
    return tuple(name for doors, names in _NAMES[field] if door in doors for name in names)
