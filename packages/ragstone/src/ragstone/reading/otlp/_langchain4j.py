"""LangChain4j in Quarkus: OpenTelemetry's convention inside spans of its services, which only their names identify."""

from __future__ import annotations

from typing import Final

from ragstone.reading.otlp._convention import Convention
from ragstone.reading.otlp._genai import is_genai, read_genai
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Step

_SERVICE: Final = "langchain4j.aiservices."


def _matches(span: OtelSpan) -> bool:
    return span.name.startswith(_SERVICE)


def _read(span: OtelSpan) -> Step:
    step = read_genai(span)
    if _matches(span):
        step.kind = "chain"
    return step


LANGCHAIN4J: Final = Convention(
    name="langchain4j", title="LangChain4j", markers=(_SERVICE,), claims=_matches, read=_read, covers=is_genai
)
