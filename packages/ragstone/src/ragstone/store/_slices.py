"""Values of a request's tags, retriever and language, by which alarms can be divided."""

from __future__ import annotations

from typing import Final

from ragstone.schema import Trace

_MAX_SLICES: Final = 30
_MAX_LENGTH: Final = 100
"""Longest name and value in characters. Longer values are cut."""


def slices_of(trace: Trace) -> dict[str, str]:
    """Return the values of a request by slice, at most 30.

    A tag `topic:billing` or `topic=billing` is the value "billing" of `tag:topic`. A tag without value is "yes". `language`
    is the value of the tag `language`, `retriever` the name of the first retrieval.
    """
    found: dict[str, str] = {}
    for tag in trace.tags:
        cut = min((i for i in (tag.find(":"), tag.find("=")) if i > 0), default=len(tag))
        name, value = tag[:cut].strip(), tag[cut + 1 :].strip() or "yes"
        if name and len(name) <= _MAX_LENGTH and len(found) < _MAX_SLICES - 2:
            found.setdefault(f"tag:{name}", value[:_MAX_LENGTH])
    retriever = next((r.name for r in trace.retrievals if r.name), None)
    language = found.get("tag:language")
    return found | {
        name: value[:_MAX_LENGTH] for name, value in (("retriever", retriever), ("language", language)) if value
    }
