"""Request format that an endpoint accepts, detected from its refusals instead of its name."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from ragstone.judges._http.errors import RequestRefusedError
from ragstone.judges._http.reasoning import LEAST_REASONING_TOKENS, REASONING_TOKENS
from ragstone.judges._render import Message

# The error for a prompt that is too long also contains "max_tokens", but another parameter name does not help.
_TOO_LONG: Final = re.compile(r"context length|context window|too large|too long|maximum|max_model_len", re.IGNORECASE)
_NO_SYSTEM: Final = re.compile(
    r"\A(?>.*?system (?:role|message|prompt)s?\b)(?>.*?\bnot\b).*\bsupport", re.IGNORECASE | re.DOTALL
)
_SYSTEM: Final = "system message"
_NO_ROOM: Final = re.compile(r"could not finish|higher (?:`|')?max_", re.IGNORECASE)
_THINKING: Final = re.compile(r"enable[_ ]thinking(?![a-z])", re.IGNORECASE)
"""Alibaba Cloud's Qwen3 and its gateways refuse requests without streaming unless thinking is turned off."""
_STREAMS: Final = re.compile(
    r"\bstream(?:ing)?\b[^.]{0,40}\b(?:must|only|required|needs)\b|\bonly[^.]{0,40}\bstream", re.IGNORECASE
)
_WORDS: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NEUTRAL: Final[Mapping[str, tuple[float, ...]]] = {
    "top_p": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
    "repetition_penalty": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
}
"""Values with which a parameter does not have an effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Format of chat requests for an endpoint."""

    max_tokens_name: str = "max_tokens"
    omitted: frozenset[tuple[str, str]] = frozenset()
    """Sampling parameters that the endpoint refuses, each with the kind of request (see `kind_of`)."""
    fold_system: bool = False
    """Whether the system message must be a part of the first user message."""
    single_replies: bool = False
    """Whether the endpoint refuses `n` above 1."""
    streams: bool = False
    """Whether requests need `stream=true`. The reply is then read as an event stream."""
    disables_thinking: bool = False
    """Whether requests need `enable_thinking=false`."""
    reasoning_tokens: int = 0
    """Tokens added to the length limit of replies, because the model reasons before it answers."""
    reasons: str = ""
    """Evidence that the model reasons first. Empty if it does not, as far as known."""

    def body(
        self,
        *,
        model: str,
        messages: Sequence[Message],
        max_tokens: int,
        sampling: Mapping[str, Any],
        fields: Mapping[str, Any] | None = None,
        room: bool = True,
    ) -> dict[str, Any]:
        """Return the body of a request."""
        omitted = self.omits(sampling)
        return {
            "model": model,
            "messages": self.written(messages),
            self.max_tokens_name: max_tokens + (self.reasoning_tokens if room else 0),
            **{name: value for name, value in sampling.items() if name not in omitted},
            **({"stream": True} if self.streams else {}),
            **({"enable_thinking": False} if self.disables_thinking else {}),
            **{name: value for name, value in (fields or {}).items() if name != "n" or not self.single_replies},
        }

    def omits(self, sampling: Mapping[str, Any]) -> frozenset[str]:
        """Return the parameters that requests with these sampling settings omit."""
        if not self.omitted:
            return frozenset()
        kind = kind_of(sampling)
        return frozenset(name for of, name in self.omitted if of == kind and name in sampling)

    def written(self, messages: Sequence[Message]) -> list[Message]:
        """Return the conversation in the form that the endpoint accepts."""
        return fold_system_message(messages) if self.fold_system and messages[0]["role"] == "system" else list(messages)

    def with_reasoning(self, sign: str) -> Dialect:
        """Return the dialect of a model that reasons first."""
        return replace(self, reasons=sign, reasoning_tokens=self.reasoning_tokens or REASONING_TOKENS)

    def adapted(
        self,
        refused: RequestRefusedError,
        sampling: Mapping[str, Any],
        fields: Mapping[str, Any] | None = None,
        *,
        room: bool = True,
    ) -> Dialect | None:
        """Return the dialect to try after a refusal, or None if the refusal has another reason."""
        if refused.status not in (400, 422) and not refused.isolated:
            return None
        fields = fields or {}
        text = (refused.param or "") if refused.isolated else refused.text
        if not self.fold_system and (_NO_SYSTEM.search(text) or text == _SYSTEM):
            return replace(self, fold_system=True)
        if not self.reasoning_tokens and _NO_ROOM.search(text):
            return self.with_reasoning("short replies are refused, because the reasoning does not fit")
        if room and self.reasoning_tokens > LEAST_REASONING_TOKENS and is_too_long(refused):
            return replace(self, reasoning_tokens=self.reasoning_tokens // 2)
        if _THINKING.search(text) and not self.disables_thinking and "enable_thinking" not in fields:
            return replace(self, disables_thinking=True)
        if _STREAMS.search(text) and not self.streams and "stream" not in fields:
            return replace(self, streams=True)
        known = {self.max_tokens_name, *(["n"] if fields.get("n", 1) != 1 else []), *sampling}
        named = known & set(_WORDS.findall(refused.param or "")) or known & set(_WORDS.findall(text))
        if "max_tokens" in named:
            return None if _TOO_LONG.search(text) else replace(self, max_tokens_name="max_completion_tokens")
        if dropped := drop_order(named & sampling.keys() - self.omits(sampling), sampling):
            kind = kind_of(sampling)
            return replace(self, omitted=self.omitted | {(kind, name) for name in dropped})
        if "n" in named and not self.single_replies:
            return replace(self, single_replies=True)
        return None

    def to_json(self) -> str:
        """Return the dialect as JSON."""
        return json.dumps(asdict(self) | {"omitted": sorted(self.omitted)})

    @classmethod
    def from_json(cls, text: str) -> Dialect:
        """Read a dialect from JSON. Raise ValueError if the text is not a dialect."""
        known = json.loads(text)
        if not isinstance(known, dict) or known.keys() != {field.name for field in fields(cls)}:
            raise ValueError(f"{text!r:.80} is not a dialect")
        return cls(**known | {"omitted": frozenset((str(kind), str(name)) for kind, name in known["omitted"])})


def kind_of(sampling: Mapping[str, Any]) -> str:
    """Return the kind of a request: its sampling parameters with their values, except for the seed's value.

    An endpoint may refuse `temperature=0` and accept `temperature=1`, so that refusals are learned for each kind.
    """
    settings = {name: name == "seed" or value for name, value in sampling.items()}
    return json.dumps(settings, sort_keys=True, default=repr)


def drop_order(named: set[str] | frozenset[str], sampling: Mapping[str, Any]) -> frozenset[str]:
    """Return which parameters to omit first, of those that a refusal names.

    Parameters without an effect come first, all together. Then the seed, then one of the others, and the temperature
    last: "temperature and top_p cannot both be specified" must not change the temperature.
    """
    if neutral := frozenset(name for name in named if sampling[name] in _NEUTRAL.get(name, ())):
        return neutral
    return frozenset(sorted(named, key=lambda name: (name == "temperature", name != "seed", name))[:1])


def controls_of(
    body: Mapping[str, Any], fields: Collection[str], sampling: Mapping[str, Any] | None
) -> dict[str, Mapping[str, Any]]:
    """Return requests that omit more and more optional parts of a chat request, by the part that is omitted last.

    These are the fields, and unless `sampling` is None, the sampling parameters and the system message.
    """
    parts = [frozenset(fields) - {"n"}, frozenset(fields) & {"n"}]
    left = frozenset(sampling or {}) & body.keys()
    while left:
        parts.append(drop_order(left, sampling or {}))
        left -= parts[-1]
    controls: dict[str, Mapping[str, Any]] = {}
    for part in parts:
        if part & body.keys():
            body = {name: value for name, value in body.items() if name not in part}
            controls[", ".join(sorted(part))] = body
    if sampling is not None and body["messages"][0]["role"] == "system":
        controls[_SYSTEM] = {**body, "messages": fold_system_message(body["messages"])}
    return controls


def is_too_long(refused: RequestRefusedError) -> bool:
    """Return whether a request was refused for its length, which is unrelated to its other fields."""
    return _TOO_LONG.search(refused.text) is not None


def fold_system_message(messages: Sequence[Message]) -> list[Message]:
    """Return a conversation whose system message is a part of the first user message."""
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]
