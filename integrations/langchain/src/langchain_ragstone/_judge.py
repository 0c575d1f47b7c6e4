"""LangChain's models as judges: our messages in, theirs out, and the reply read back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase
from langsmith.run_helpers import get_tracing_context, tracing_context

from langchain_ragstone._messages import text_of
from ragstone.errors import ConfigurationError
from ragstone.judges import ChatRequest, ClientSettings, Completion, FunctionModel, ModelJudge
from ragstone.schema import Usage

_MAY_BE_SECRET: Final = re.compile("key|token|secret|password|auth|header", re.IGNORECASE)
_CONFIG: Final[Any] = {"run_name": "ragstone_judge"}


class LangChainModel(FunctionModel):
    """Any chat model of LangChain as a `ragstone.judges.ChatModel`.

    Calls use `invoke`, on threads: the model's own timeouts and retries apply, and its asynchronous client, which
    belongs to one event loop, is not used. Calls keep the model's settings, except the length of replies and, for
    sampled replies, the temperature. Both are set on a copy. Its calls are never captured as user traffic.

    Args:
        model: A chat model; a text model; one of them with `bind`, `with_retry` or `with_fallbacks`.
        name: Name of the model (default: its name and class).
        max_concurrent_requests: Maximum number of concurrent requests.
        timeout_s: Timeout of one reply in seconds, including the model's own retries.

    Raises:
        ConfigurationError: If it is not a LangChain model, or an option is outside its range.

    Examples:
        ```python
        reader = ChatReader(LangChainModel(chat_model), prompt=my_template)
        ```
    """

    def __init__(
        self,
        model: Runnable[Any, Any],
        *,
        name: str | None = None,
        max_concurrent_requests: int = 16,
        timeout_s: float = 120.0,
    ) -> None:
        given: object = model
        if not isinstance(given, Runnable):
            raise ConfigurationError(
                f"{given!r:.200} is not a LangChain model; give a chat model, such as init_chat_model(...) makes"
            )
        client = _innermost(model)
        settings = ClientSettings(client)
        kind = type(client).__name__
        super().__init__(
            lambda request: _asked(model, request),
            name=name or (f"{settings.model} through {kind}" if settings.model else kind),
            settings=_shape(model),
            max_concurrent_requests=max_concurrent_requests,
            timeout_s=timeout_s,
            secrets=settings.secrets,
        )


class LangChainJudge(ModelJudge):
    """A `ModelJudge` on a `LangChainModel`, in one step: any chat model of LangChain judges.

    The model's temperature is the one it was made with; 0 makes scores repeatable.

    Args:
        model: See `LangChainModel`.
        name: See `LangChainModel`.
        max_concurrent_requests: See `LangChainModel`.
        timeout_s: See `LangChainModel`.
        max_tokens: See `ragstone.judges.ModelJudge`: models that reason before they answer need thousands.
        score_mode: "single": the number in one reply. "sampled": the mean of `draws` replies at temperature 1, with an
            interval. "reasoned": the model writes its reasons first, and then the number.
        draws: Replies for "sampled".

    Raises:
        ConfigurationError: A value that cannot work.

    Examples:
        ```python
        judge = LangChainJudge(init_chat_model("gpt-4.1-mini", temperature=0))
        ragstone.evaluate(rows, ["ccrs"], judge=judge)
        ```
    """

    def __init__(
        self,
        model: Runnable[Any, Any],
        *,
        name: str | None = None,
        max_concurrent_requests: int = 16,
        timeout_s: float = 120.0,
        max_tokens: int = 64,
        score_mode: Literal["single", "sampled", "reasoned"] = "single",
        draws: int = 5,
    ) -> None:
        super().__init__(
            LangChainModel(model, name=name, max_concurrent_requests=max_concurrent_requests, timeout_s=timeout_s),
            temperature=None,
            max_tokens=max_tokens,
            score_mode=score_mode,
            draws=draws,
        )


def _innermost(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return the model inside `bind`, `with_config` and `with_retry`, or the first one of several with fallbacks."""
    inner = model.bound if isinstance(model, RunnableBindingBase) else getattr(model, "runnable", None)
    return _innermost(inner) if isinstance(inner, Runnable) else model


def _shape(model: Runnable[Any, Any]) -> dict[str, object]:
    """Return the settings of the model and of its wrappers."""
    shape: dict[str, object] = ClientSettings(model).settings
    if isinstance(model, RunnableBindingBase):
        shape |= {"bound": _shape(model.bound), "kwargs": _plain_options(model.kwargs)}
    elif isinstance(inner := getattr(model, "runnable", None), Runnable):
        shape |= {"runnable": _shape(inner), "fallbacks": [_shape(other) for other in getattr(model, "fallbacks", ())]}
    return shape


def _plain_options(options: Mapping[str, Any]) -> dict[str, object]:
    """Return bound options as plain values. Possible keys and objects are replaced by the name of their type."""
    return {name: value if _is_plain(name, value) else type(value).__name__ for name, value in options.items()}


def _is_plain(name: str, value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_plain(name, item) for item in value)
    return isinstance(value, int | float) or (isinstance(value, str) and not _MAY_BE_SECRET.search(name))


def _asked(model: Runnable[Any, Any], request: ChatRequest) -> tuple[Completion, Usage]:
    with _disable_langsmith_upload():
        reply = _configured(model, request).invoke([dict(message) for message in request.messages], _CONFIG)
    if not isinstance(reply, BaseMessage):
        return Completion(text=text_of(reply) or ""), Usage()
    about = reply.response_metadata
    places = (getattr(reply, "usage_metadata", None), about, reply.additional_kwargs)
    return ClientSettings.read_reply(text_of(reply) or "", *places, logprobs=about.get("logprobs"))


@contextmanager
def _disable_langsmith_upload() -> Iterator[None]:
    """Prevent uploads of model calls to LangSmith, which LangChain does even in `evaluate(upload_results=False)`."""
    if get_tracing_context()["enabled"] == "local":
        with tracing_context(enabled=False):
            yield
    else:
        yield


def _configured(model: Runnable[Any, Any], request: ChatRequest) -> Runnable[Any, Any]:
    """Return a copy of the model with the request's options, as far as its class has settings for them."""
    if isinstance(model, RunnableBindingBase):
        return model.model_copy(update={"bound": _configured(model.bound, request)})
    return ClientSettings(model).client_for(request)
