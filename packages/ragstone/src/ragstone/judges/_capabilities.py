"""What an endpoint can do, as measured."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Capabilities"]


class Capabilities(BaseModel):
    """Measured effects of one endpoint and model; nothing here comes from a name or a status alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str
    server: str | None = None
    """What the server says it is ("vllm 0.32.0"); for people, nothing depends on it."""
    context_length: int | None = None
    """Tokens of prompt and reply together, where the server says so."""
    max_tokens_name: str = "max_tokens"
    refused_parameters: tuple[str, ...] = ()
    """Parameters the endpoint refuses ("temperature", "logprobs")."""
    reasons: bool = False
    """Replies begin with reasoning, so that the first tokens say nothing about the answer."""
    top_logprobs: int = 0
    """Alternatives reported for each token; 0 when log-probabilities do not come."""
    logprobs_raw: bool | None = None
    """Whether log-probabilities stay the same at another temperature; None when it could not be seen."""
    exact_route: Literal["chain", "prefill", "echo"] | None = None
    """How the exact probability of a given reply can be read."""
    exact_routes: tuple[Literal["chain", "prefill", "echo"], ...] = ()
    """All that work; `exact_route` is the best of them."""
    asked_tokens: int = 0
    """Tokens whose probability can be asked for by id, whatever their rank; 0 when none."""
    boundary_clean: bool | None = None
    """Whether the tokens of a conversation with a reply are those of the conversation and of the reply."""
    structured: tuple[str, ...] = ()
    """Constraints that replies really obey ("regex", "choice", "json_schema"). This, `seeds` and `prefix_cache` are
    measured in full (`ragstone doctor`) only; `seen` says so."""
    several_replies: bool = False
    """Whether one request gives several replies."""
    seeds: bool | None = None
    """Whether a seed repeats a sampled reply."""
    prefix_cache: float | None = None
    """Share of a repeated prompt that came from the server's cache; None when the server does not say."""
    seen: dict[str, str] = Field(default_factory=dict)
    """What was seen of each capability, in words, by its name ("chain", "seeds", "regex"); for people."""
    unmeasured: tuple[str, ...] = ()
    """What trouble kept from being measured, though the endpoint works; such a verdict is not kept for later."""
    notes: tuple[str, ...] = ()
    """What a person should know, in sentences."""

    @property
    def estimator(self) -> Literal["exact_sequence", "first_token", "monte_carlo"]:
        """How the probability of a reply is found on this endpoint."""
        if self.exact_route is not None and not self.reasons:
            return "exact_sequence"
        # What the temperature has changed is no probability of the model's.
        if self.top_logprobs and self.logprobs_raw and not self.reasons:
            return "first_token"
        return "monte_carlo"
