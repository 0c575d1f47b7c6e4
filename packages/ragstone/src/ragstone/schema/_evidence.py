"""How the query, the contexts and the response of a trace were found, and what is unclear about them."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from ragstone.schema._base import Model

QueryRule = Literal["stated", "input", "only_input", "nested_input", "output", "prompt", "retrieval", "unknown"]
ContextsRule = Literal[
    "stated", "in_prompt", "part_of_prompt", "in_output", "made_by_last_step", "given", "found", "unknown"
]
ResponseRule = Literal["stated", "output", "reply_in_output", "last_reply", "unknown"]

Part = Literal["query", "contexts", "response"]

_DOUBTFUL: Final[dict[str, tuple[tuple[Part, ...], str]]] = {
    "several_questions": (
        ("query",), "several texts of the inputs could be the question; state it, or name it question",
    ),
    "several_answers": (
        ("contexts", "response"),
        "several model calls or texts could be the answer; state it, for example with an extractor",
    ),
    "no_model_wrote_it": (
        ("contexts",),
        "no model call of the request wrote the answer (a fixed text, for example), so no prompt shows its contexts",
    ),
    "empty_answer": (
        ("contexts",), "the answer is empty and no model call of the request wrote it, so no prompt shows its contexts",
    ),
    "not_in_prompt": (
        ("contexts",), "passages were found, but none of them is in the prompt of the model call that wrote the answer",
    ),
    "short_passage": (
        ("contexts",), "a passage of fewer than 32 characters and 4 words is in the prompt, possibly by coincidence",
    ),
    "short_reply": (
        ("contexts",),
        "the prompt contains a few words that an earlier call replied, or what a tool made of them, and that call saw other passages",
    ),
    "passages_from_earlier_turn": (
        ("contexts",), "the prompt contains results of tools that ran in an earlier request of the session",
    ),
    "too_large": (("contexts",), "passages and prompts are too large to compare (more than 20 million characters)"),
    "no_answer": (
        ("response",),
        "the application ended the request without an answer that is known; name it answer, or pass it to answer() in a block",
    ),
    "answered_twice": (
        (), "the application called answer() twice, and the last answer counts; use a block for each request",
    ),
    "without_text": ((), "hits that the application passed do not have a text under a known name; name it with text="),
    "unreadable": (
        ("contexts",), "hits or a prompt that the application passed could not be read; see monitor.errors and the log",
    ),
    "internal_error": (
        ("query", "contexts", "response"), "the steps of the request could not be read; please report this",
    ),
    "text_in_state": (
        ("contexts",),
        "the prompt contains texts from the state that may not be retrieved; return documents, or state the contexts",
    ),
    "unseen_prompt": (
        ("contexts",),
        "passages were found, but no model call was seen; pass the configuration on, or state the contexts",
    ),
    "text_tool": (
        ("contexts",),
        "a tool returned plain text; add retriever_tools={NAME: True} if it retrieves, {NAME: False} if it does not",
    ),
}  # fmt: skip
"""By code: the parts of a trace that are in doubt, and why. Without a part, the doubt is only counted."""
_UNKNOWN: Final[tuple[tuple[Part, ...], str]] = (
    ("query", "contexts", "response"),
    "another version of Ragstone explains this doubt",
)


class Evidence(Model):
    """The rules by which a request's parts were found, and codes of what is unclear."""

    query: QueryRule = "unknown"
    contexts: ContextsRule = "unknown"
    response: ResponseRule = "unknown"
    doubts: tuple[str, ...] = ()
    """Codes, such as "not_in_prompt" or "text_tool:search_policy" (with the name of the tool)."""
    declared_tools: dict[str, bool] = Field(default_factory=dict)
    """Whether the request called each tool that `retriever_tools` names."""

    def doubt_about(self, part: str) -> str | None:
        """Return the first doubt about the query, the contexts or the response as a sentence; None without one.

        Examples:
            >>> Evidence(doubts=("several_answers",)).doubt_about("query") is None
            True
        """
        for doubt in self.doubts:
            parts, reason = _explained(doubt)
            if part in parts:
                return f"{doubt}: {reason}"
        return None


def describe_doubt(doubt: str) -> str:
    """Return what a doubt means, as a sentence.

    Examples:
        >>> describe_doubt("too_large")
        'Passages and prompts are too large to compare (more than 20 million characters).'
    """
    code, _, name = doubt.partition(":")
    reason = _explained(doubt)[1]
    sentence = f"{reason[0].upper()}{reason[1:]}."
    if code == "text_tool" and name:
        sentence += f" For replay or ingest, add --retriever-tool {name} or --no-retriever-tool {name}."
    return sentence


def _explained(doubt: str) -> tuple[tuple[Part, ...], str]:
    """Return the parts that a doubt is about, and why."""
    code, _, name = doubt.partition(":")
    parts, reason = _DOUBTFUL.get(code, _UNKNOWN)
    return parts, reason.replace("NAME", repr(name)) if name else reason
