"""LlamaIndex's nodes, copied into passages: each node of a request once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from llama_index.core.schema import BaseNode, NodeWithScore, TextNode

from ragstone.requests import PassageDraft

MAX_PASSAGES: Final = 1_000
"""Nodes copied from one list. `max_passages` of `[lengths]` cuts further, and notes it in the trace."""


class Passages:
    """The passages of one request: a node that appears again with the same text, score and metadata is the same object."""

    __slots__ = ("_by_id", "_found", "_made")

    def __init__(self) -> None:
        self._by_id: dict[str, PassageDraft] = {}
        self._found: dict[str | None, PassageDraft] = {}
        self._made: list[str] = []

    def of(self, item: object) -> PassageDraft | None:
        """Return the passage of a node, with or without score, or of a text; None for anything else."""
        if isinstance(item, str):
            return PassageDraft(text=item)
        node, score = (item.node, item.score) if isinstance(item, NodeWithScore) else (item, None)
        if not isinstance(node, BaseNode):
            return None
        text, key, metadata = _text(node), node.node_id, node.metadata
        known = self._by_id.get(key)
        # Equal texts are one string nearly always, whose comparison takes no time.
        if known is not None and (score is None or score == known.score) and known.text == text and known.has(metadata):
            return known
        passage = self._by_id[key] = PassageDraft.copied(text, metadata, id=key, score=score)
        return passage

    def copied(self, nodes: Iterable[object]) -> tuple[PassageDraft, ...]:
        """Return the passages of at most `MAX_PASSAGES` nodes or texts, in their order."""
        of = self.of
        return tuple([passage for node in islice(nodes, MAX_PASSAGES) if (passage := of(node)) is not None])

    def found(self, nodes: object) -> tuple[PassageDraft, ...] | None:
        """Return the passages that a retriever, a reranker or a tool returned; None if it did not return a list."""
        if not isinstance(nodes, list | tuple):
            return None
        passages = self.copied(nodes)
        for passage in passages:
            self._found[passage.id] = passage
        return passages

    @property
    def any_found(self) -> bool:
        """Whether a retriever, a reranker or a tool returned nodes."""
        return bool(self._found)

    def note_reply(self, text: str | None) -> None:
        """Note what an engine inside the request answered."""
        if text and text.strip():
            self._made.append(text.strip())

    def sources(self, nodes: Iterable[object]) -> tuple[PassageDraft, ...]:
        """Return the passages of the nodes that a result names as its sources.

        Nodes that engines make from the answers of other engines, such as those to sub-questions, are left out.
        """
        passages = self.copied(nodes)
        if not self._made:
            return passages
        found = self._found
        return tuple([passage for passage in passages if passage.id in found or not self._is_reply(passage)])

    def _is_reply(self, passage: PassageDraft) -> bool:
        text = passage.text.rstrip()
        return any(text.endswith(reply) for reply in self._made) and not any(
            found.text in passage.text for found in self._found.values()
        )


def node_texts(nodes: object) -> frozenset[str]:
    """Return the texts of nodes as they are now: rerankers may change nodes in place."""
    if not isinstance(nodes, list | tuple):
        return frozenset()
    return frozenset([_text(item.node) for item in islice(nodes, MAX_PASSAGES) if isinstance(item, NodeWithScore)])


def _text(node: BaseNode) -> str:
    """Return the text of a node without metadata: the application's own text, not a copy."""
    # A text node formats its metadata before it returns its text without them, which takes as long as all else.
    if isinstance(node, TextNode) and type(node).get_content is TextNode.get_content:
        return node.text
    return node.get_content()
