"""The judge behind any OpenAI-compatible chat endpoint: vLLM, SGLang, llama.cpp, Ollama, OpenAI, gateways."""

from __future__ import annotations

from typing import Literal, Unpack

from ragstone.judges._model_judge import ModelJudge
from ragstone.judges.openai_model import ConnectionOptions, OpenAICompatibleModel

__all__ = ["OpenAICompatibleJudge"]


class OpenAICompatibleJudge(ModelJudge):
    """A `ModelJudge` on an `OpenAICompatibleModel`, in one step.

    Args:
        base_url: "http://host:8000/v1"; without a path, `/v1` is taken.
        temperature: See `ModelJudge`.
        seed: See `ModelJudge`.
        number_max_tokens: See `ModelJudge`.
        score_mode: See `ModelJudge`.
        draws: See `ModelJudge`.
        connection: `model`, `api_key`, `concurrency`, `timeout_s` and all other options of `OpenAICompatibleModel`.

    Raises:
        ConfigurationError: A value that cannot work.

    Example:
        ```python
        judge = OpenAICompatibleJudge("http://localhost:8000/v1", model="qwen3-8b", concurrency=32)
        reply = await judge.ask_number(prompt)
        ```
    """

    def __init__(
        self,
        base_url: str,
        *,
        temperature: float | None = 0.0,
        seed: int | None = None,
        number_max_tokens: int = 64,
        score_mode: Literal["single", "expected", "sampled"] = "single",
        draws: int = 5,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        super().__init__(
            OpenAICompatibleModel(base_url, **connection),
            temperature=temperature,
            seed=seed,
            number_max_tokens=number_max_tokens,
            score_mode=score_mode,
            draws=draws,
        )
