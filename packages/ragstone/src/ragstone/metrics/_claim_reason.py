"""The reason of a score from claims: the list of claims (sentences, questions, passages) with their verdicts, in text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragstone._util.words import split_words
from ragstone.metrics._shares import Mark

EMPTY_RESPONSE: Final = "The response is empty."
_MAX_LINES: Final = 20
"""Maximum number of claims in one list. `details` contains all of them."""
_MAX_CHARS: Final = 200
_HEADINGS: Final = {"claims": "Claims of the response", "reference_claims": "Claims of the reference"}
_VERDICTS: Final[Mapping[str, tuple[str, str]]] = {
    "supported": ("supported", "not supported"),
    "right": ("correct", "wrong"),
    "found": ("in a passage", "in no passage"),
    "supported_by_response": ("in the response", "not in the response"),
    "relevant": ("relevant", "not relevant"),
}
"""By column of the details: the words for yes and no."""


def describe_evidence(details: Mapping[str, Any], passages: Sequence[str]) -> str | None:
    """Return the verdicts in the details of a claim metric as text, least supported claims first, or None without any.

    If the judge compared a claim with all passages together, the passage with most of its words is named as the
    closest.

    Examples:
        >>> print(
        ...     describe_evidence(
        ...         {"claims": [{"claim": "It is 31 m.", "supported": True}]}, ["The tower is 31 m high."]
        ...     )
        ... )
        Claims of the response:
        - supported (closest: passage 1): It is 31 m.
    """
    sections = [_list(heading, details[name], passages) for name, heading in _HEADINGS.items() if details.get(name)]
    for position, sentences in enumerate(details.get("sentences", ()), start=1):
        sections.append(_list(f"Passage {position}", sentences, ()))
    if details.get("noncommittal"):
        sections.append("The response does not commit to an answer.")
    if questions := details.get("questions"):
        lines = [f"- {item['equivalence']:.0%}: {_cut(item['question'])}" for item in questions]
        sections.append(
            "\n".join(["Questions that the response answers, and how far the query asks the same:", *lines])
        )
    for name, label in (("useful", "Useful passages"), ("relevant", "Relevant passages")):
        if name in details:
            sections.append(f"{label}: {_positions(details[name])}.")
    return "\n".join(section for section in sections if section) or None


def _list(heading: str, claims: Sequence[Mapping[str, Any]], passages: Sequence[str]) -> str:
    # Sorting is stable, so claims with equally many verdicts stay in their order.
    ranked = sorted(claims, key=lambda claim: sum(bool(verdict) for name, verdict in claim.items() if name != "claim"))
    lines = [f"- {_verdicts(claim, passages)}: {_cut(claim['claim'])}" for claim in ranked[:_MAX_LINES]]
    if len(ranked) > _MAX_LINES:
        lines.append(f"- and {len(ranked) - _MAX_LINES} more")
    return "\n".join([f"{heading}:", *lines]) if lines else ""


def _verdicts(claim: Mapping[str, Any], passages: Sequence[str]) -> str:
    words = []
    for name, (yes, no) in _VERDICTS.items():
        # The list of supporting passages says more than whether there is one.
        if name in claim and not (name == "found" and "passages" in claim):
            words.append(_word(claim[name], yes, no))
    if "passages" in claim:
        numbers = ", ".join(map(str, claim["passages"]))
        several = "s" if len(claim["passages"]) > 1 else ""
        words.append(f"supported by passage{several} {numbers}" if numbers else "supported by no passage")
    if "cited" in claim:
        words.append(_citations(claim))
    elif claim.get("supported") and (closest := _closest(claim["claim"], passages)):
        words[-1] += f" (closest: passage {closest})"
    return ", ".join(words)


def _word(mark: Mark, yes: str, no: str) -> str:
    return "no verdict" if mark is None else yes if mark else no


def _citations(claim: Mapping[str, Any]) -> str:
    cited, not_needed = (", ".join(map(str, claim.get(name, ()))) for name in ("cited", "not_needed"))
    words = [f"cites {cited}{f' ({not_needed} not needed)' if not_needed else ''}"] if cited else []
    words += [f"cites {label}, which is not a passage" for label in claim.get("unknown", ())]
    return ", ".join(words) or "without a citation"


def _closest(claim: str, passages: Sequence[str]) -> int | None:
    """Return the position, from 1, of the passage with most words of a claim, or None if none has any of them."""
    words = set(split_words(claim))
    shared = [len(words & set(split_words(passage))) for passage in passages]
    return shared.index(max(shared)) + 1 if any(shared) else None


def _positions(marks: Sequence[Mark]) -> str:
    positions = ", ".join(str(position) for position, mark in enumerate(marks, start=1) if mark)
    return f"{positions or 'none'} of {len(marks)}"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 1]}…"
