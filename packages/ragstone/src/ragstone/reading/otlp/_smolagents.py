"""smolagents: OpenInference, with a tool that gives the final answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ragstone.reading._json import inner_json
from ragstone.reading._values import json_in, values_in
from ragstone.reading.otlp._convention import Convention, indexed
from ragstone.reading.otlp._openinference import is_openinference, read_openinference
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Step

_PREFIX: Final = "smolagents."
_STEP_INPUT: Final = '{"memory_step":'
_FINAL: Final = "final_answer"
_FUNCTION: Final = "tool_call.function"


def _matches(span: OtelSpan) -> bool:
    # The span of a run that fails is not exported, those of its steps are.
    is_step = str(span.attributes.get("input.value", "")).startswith(_STEP_INPUT)
    return is_openinference(span) and (is_step or any(name.startswith(_PREFIX) for name in span.attributes))


def _read(span: OtelSpan) -> Step:
    step = read_openinference(span)
    if step.kind == "model":
        answer = _final_answer(span)
        if answer is not None:
            # The call of this tool is how a model replies to the user.
            step.reply, step.calls_tool = answer, False
    elif step.kind == "tool" and step.name == _FINAL:
        step.kind = "part"
    elif step.kind in ("agent", "chain"):
        # The inputs are JSON, without a type that says so.
        step.inputs = values_in(inner_json(span.attributes.get("input.value")))
    return step


def _final_answer(span: OtelSpan) -> str | None:
    for message in indexed(span.attributes, "llm.output_messages"):
        for call in indexed(message, "message.tool_calls"):
            if call.get(f"{_FUNCTION}.name") == _FINAL:
                arguments = json_in(call.get(f"{_FUNCTION}.arguments"))
                answer = arguments.get("answer") if isinstance(arguments, Mapping) else None
                return answer if isinstance(answer, str) else None
    return None


SMOLAGENTS: Final = Convention(
    name="smolagents", title="smolagents", markers=(_PREFIX,), claims=_matches, read=_read, covers=is_openinference
)
