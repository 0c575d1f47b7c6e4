"""Settings and secrets of an application's model object, copies with other settings, and what its replies say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from ragstone.judges._http.replies import read_tokens
from ragstone.judges._model import ChatRequest, Completion
from ragstone.schema import TOKEN_NAMES, Usage

T = TypeVar("T")

_TEMPERATURE: Final = "temperature"
_LENGTHS: Final = (
    "max_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "max_completion_tokens",
    "num_predict",
    "num_output",
)
_NAMES: Final = ("model", "model_name", "model_id", "deployment_name", "azure_deployment", "engine")
_URLS: Final = ("base_url", "api_base", "openai_api_base", "azure_endpoint", "endpoint_url", "endpoint")
_SHAPING: Final = (
    *_NAMES,
    _TEMPERATURE,
    *("top_p", "top_k", "min_p", "seed", "stop", "n"),
    *("presence_penalty", "frequency_penalty", "repetition_penalty", "repeat_penalty"),
    *("reasoning_effort", "reasoning", "thinking", "thinking_budget", "effort", "verbosity"),
    *("model_kwargs", "additional_kwargs", "extra_body", "api_version", "service_tier"),
)
"""Names of settings that affect replies, in the clients of many providers. No other setting is read, because the others
concern transport and may be secret."""
_KEYS: Final = ("key", "token", "secret", "password", "authorization")
_LENGTH: Final = ("length", "max_tokens", "max_output_tokens")
_REFUSED: Final = (
    *("refusal", "content_filter", "content_filtered", "guardrail_intervened"),
    *("safety", "recitation", "blocklist", "prohibited_content", "spii"),
)
_FINISH_KEYS: Final = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_CREDENTIALS: Final = re.compile(r"\w+://([^/?#]+)@")
_MIN_SECRET: Final = 6
"""Minimum length of a secret. Replacing shorter texts would also replace ordinary words."""


@dataclass(frozen=True, slots=True)
class ClientSettings(Generic[T]):
    """Settings of a client object. Without a pydantic model, nothing is known.

    Examples:
        ```python
        settings = ClientSettings(chat_model)
        FunctionModel(ask, name=settings.model or "a model", settings=settings.settings, secrets=settings.secrets)
        ```
    """

    client: T

    @property
    def model(self) -> str | None:
        """Name of the model, or None if the client does not have one."""
        return next((value for name in _NAMES if isinstance(value := self._get(name), str) and value), None)

    @property
    def settings(self) -> dict[str, object]:
        """Settings that affect replies: class, model, host, sampling. No keys and no credentials of URLs."""
        kind = type(self.client)
        shape: dict[str, object] = {"client": f"{kind.__module__}.{kind.__qualname__}"}
        for name in (*_SHAPING, *_LENGTHS):
            if (value := _plain(self._get(name))) is not None:
                shape[name] = value
        for name in _URLS:
            if isinstance(value := self._get(name), str):
                parts = urlsplit(value)
                shape[name] = f"{parts.netloc.rpartition('@')[2]}{parts.path}"
        return shape

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not be in messages."""
        return tuple(dict.fromkeys(text for text in self._secrets() if len(text) >= _MIN_SECRET))

    def _secrets(self) -> Iterator[str]:
        if not isinstance(self.client, BaseModel):
            return
        for name, value in self.client:
            if isinstance(value, SecretStr):
                yield value.get_secret_value()
            elif isinstance(value, str) and any(key in name.lower() for key in _KEYS):
                yield value
            elif isinstance(value, Mapping) and "header" in name.lower():
                yield from (text for text in value.values() if isinstance(text, str))
            elif isinstance(value, str) and (credentials := _CREDENTIALS.match(value)):
                yield from credentials[1].split(":")

    def client_for(self, request: ChatRequest) -> T:
        """Return a copy of the client, on the same connections, with the options of a request.

        Options without a setting in the client are ignored. So are options that would only repeat a default (top_p=1 if
        the client does not set it).
        """
        options = {
            name: value
            for name, value in request.sampling.items()
            if self._has(name) and (name in (_TEMPERATURE, "seed") or self._get(name) is not None)
        }
        length = next((name for name in _LENGTHS if self._has(name)), None)
        if length is not None:
            options[length] = request.max_tokens
        if request.top_logprobs and self._has("logprobs") and self._has("top_logprobs"):
            options |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        client: Any = self.client
        return client.model_copy(update=options) if options else self.client

    @staticmethod
    def read_reply(text: str, *places: object, logprobs: object = None) -> tuple[Completion, Usage]:
        """Read how a reply ended, its usage and its tokens, under the names that providers use.

        Args:
            text: Text of the reply. A refusal replaces it.
            places: Objects or mappings of the client that may say how it ended and its numbers of tokens: raw replies,
                metadata. The first one that does counts. Without both numbers, the call is not in `Usage.counted_calls`.
            logprobs: Log-probabilities in OpenAI's form, which other providers use too.
        """
        refusal, reason = None, ""
        for place in (inner for outer in places for inner in _choices(outer)):
            refusal = refusal or _look_up(place, "refusal")
            reason = reason or next((_word(found) for key in _FINISH_KEYS if (found := _look_up(place, key))), "")
        finish: Literal["stop", "length", "refused"] = "length" if reason in _LENGTH else "stop"
        if refusal or reason in _REFUSED:
            text, finish = str(refusal or text), "refused"
        counts: list[object] = []
        for place in places:
            counts += [_look_up(place, "usage"), _look_up(place, "usage_metadata"), place]
        n_in, n_out = (_count(counts, names) for names in TOKEN_NAMES)
        is_counted = bool(n_in) and n_out is not None
        usage = Usage(calls=1, input_tokens=n_in or 0, output_tokens=n_out or 0, counted_calls=int(is_counted))
        return Completion(text=text, finish=finish, tokens=read_tokens(logprobs)), usage

    def _get(self, name: str) -> object:
        return getattr(self.client, name, None) if self._has(name) else None

    def _has(self, name: str) -> bool:
        return isinstance(self.client, BaseModel) and name in type(self.client).model_fields


def _choices(reply: object) -> Iterator[object]:
    """Yield where providers say how a reply ended: the reply, and its first choice or candidate with the message."""
    yield reply
    for name in ("choices", "candidates"):
        choices = _look_up(reply, name)
        if isinstance(choices, list) and choices:
            yield choices[0]
            yield _look_up(choices[0], "message")


def _look_up(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _word(value: object) -> str:
    """Return a finish reason as lower-case text. Some providers use an enumeration."""
    return str(getattr(value, "name", value)).lower()


def _count(places: Sequence[object], names: tuple[str, ...]) -> int | None:
    counts = (_look_up(place, name) for place in places for name in names)
    return next((n for n in counts if isinstance(n, int) and not isinstance(n, bool) and n >= 0), None)


def _plain(value: object) -> object:
    """Return plain values, also nested ones, or None for any other value."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {
            str(key): plain
            for key, item in value.items()
            if not _is_secret(str(key), item) and (plain := _plain(item)) is not None
        } or None
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value] or None
    return None


def _is_secret(name: str, value: object) -> bool:
    return "header" in name.lower() or (isinstance(value, str) and any(key in name.lower() for key in _KEYS))
