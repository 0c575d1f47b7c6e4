"""LlamaIndex's models as judges: our messages in, theirs out, and the reply read back."""

from __future__ import annotations

from typing import Final, Literal

from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import ChatMessage

from ragstone.errors import ConfigurationError
from ragstone.judges import ChatRequest, ClientSettings, Completion, FunctionModel, ModelJudge
from ragstone.schema import Usage

_UNNAMED: Final = "unknown"
"""What models without a name call themselves."""


class LlamaIndexModel(FunctionModel):
    """Any model of LlamaIndex as a `ragstone.judges.ChatModel`.

    It is asked with `chat`, on threads: its own time-outs and retries hold, and its asynchronous client, which belongs
    to one event loop, is left alone. It is asked as it was configured, but for the length of replies and, where replies
    are to be drawn, the temperature; both are set on a copy. What it makes is never captured as user traffic.

    Args:
        llm: The model, `Settings.llm` for instance.
        name: The model in words; by default its name and class.
        max_concurrent_requests: Requests in flight at once.
        timeout_s: Seconds for one reply, its own retries included.

    Raises:
        ConfigurationError: If it is not a model of LlamaIndex, or an option has an invalid value.

    Examples:
        ```python
        reader = ChatReader(LlamaIndexModel(llm), prompt=my_template)
        ```
    """

    def __init__(
        self, llm: BaseLLM, *, name: str | None = None, max_concurrent_requests: int = 16, timeout_s: float = 120.0
    ) -> None:
        given: object = llm
        if not isinstance(given, BaseLLM):
            raise ConfigurationError(f"{given!r:.200} is not a model of LlamaIndex's; give one, such as Settings.llm")
        settings = ClientSettings(llm)
        kind = type(llm).__name__
        model = llm.metadata.model_name if llm.metadata.model_name != _UNNAMED else settings.model
        super().__init__(
            lambda request: _asked(settings, request),
            name=name or (f"{model} through {kind}" if model else kind),
            settings={**settings.settings, "model": model},
            max_concurrent_requests=max_concurrent_requests,
            timeout_s=timeout_s,
            secrets=settings.secrets,
        )


class LlamaIndexJudge(ModelJudge):
    """A `ModelJudge` on a `LlamaIndexModel`, in one step: any model of LlamaIndex judges.

    The model's temperature is the one it was made with; 0 makes scores repeatable.

    Args:
        llm: See `LlamaIndexModel`.
        name: See `LlamaIndexModel`.
        max_concurrent_requests: See `LlamaIndexModel`.
        timeout_s: See `LlamaIndexModel`.
        max_tokens: See `ragstone.judges.ModelJudge`: models that reason before they answer need thousands.
        score_mode: "single": the number in one reply. "sampled": the mean of `draws` replies at temperature 1, with an
            interval. "reasoned": the model writes its reasons first, and then the number.
        draws: Replies for "sampled".

    Raises:
        ConfigurationError: A value that cannot work.

    Examples:
        ```python
        judge = LlamaIndexJudge(OpenAI("gpt-4.1-mini", temperature=0))
        ragstone.evaluate(rows, ["ccrs"], judge=judge)
        ```
    """

    def __init__(
        self,
        llm: BaseLLM,
        *,
        name: str | None = None,
        max_concurrent_requests: int = 16,
        timeout_s: float = 120.0,
        max_tokens: int = 64,
        score_mode: Literal["single", "sampled", "reasoned"] = "single",
        draws: int = 5,
    ) -> None:
        super().__init__(
            LlamaIndexModel(llm, name=name, max_concurrent_requests=max_concurrent_requests, timeout_s=timeout_s),
            temperature=None,
            max_tokens=max_tokens,
            score_mode=score_mode,
            draws=draws,
        )


def _asked(settings: ClientSettings[BaseLLM], request: ChatRequest) -> tuple[Completion, Usage]:
    messages = [ChatMessage(role=message["role"], content=message["content"]) for message in request.messages]
    reply = settings.client_for(request).chat(messages)
    # Log-probabilities are ignored: LlamaIndex keeps the likeliest tokens of each place, and not which one was said.
    places = (reply.raw, reply.additional_kwargs, reply.message.additional_kwargs)
    return ClientSettings.read_reply(reply.message.content or "", *places)
