"""A cap on what is spent: when it is reached, nothing more is asked."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

from ragstone._util.fork import after_fork_in_child
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.schema import Usage

__all__ = ["Budget", "usage_of"]

_MAX_TOKENS: Final = 10**9
"""No request takes as many. JSON has integers of any size, and sums, dollars and databases do not."""


class Budget:
    """Stops asking when so many calls, tokens or dollars are spent; what was paid for stays.

    One cap may be given to several models, which then share it. Calls never exceed their cap. Tokens and dollars are known
    when a reply is there, so they can exceed theirs by the requests that are in flight at that moment. Retries count.
    The count begins with the object, and each process has its own.

    Args:
        calls: Requests sent.
        tokens: Tokens of input and output together, as the endpoint counts them.
        usd: US dollars; the models need `usd_per_million_tokens`.

    Raises:
        ConfigurationError: No cap at all, or one that is not above 0.

    Example:
        ```python
        judge = OpenAICompatibleJudge(url, usd_per_million_tokens=(0.15, 0.6), budget=Budget(usd=5))
        ```
    """

    def __init__(self, *, calls: int | None = None, tokens: int | None = None, usd: float | None = None) -> None:
        self._caps = {
            name: cap for name, cap in (("calls", calls), ("tokens", tokens), ("usd", usd)) if cap is not None
        }
        if not self._caps or not all(cap > 0 for cap in self._caps.values()):
            given = ", ".join(f"{name}={cap!r}" for name, cap in self._caps.items()) or "none"
            raise ConfigurationError(f"a Budget needs calls, tokens or usd, each above 0, got {given}")
        self.needs_prices = usd is not None
        """Whether a model needs `usd_per_million_tokens` for it."""
        self._spent = Usage()
        self._lock = threading.Lock()
        after_fork_in_child(self._after_fork)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Budget({', '.join(f'{name}={cap!r}' for name, cap in self._caps.items())})"

    @property
    def spent(self) -> Usage:
        """What was spent under this cap so far."""
        return self._spent

    @property
    def reached(self) -> bool:
        """Whether nothing more is asked."""
        return bool(self._reached())

    def _reached(self) -> list[str]:
        spent = self._spent
        totals: dict[str, float] = {
            "calls": spent.calls,
            "tokens": spent.input_tokens + spent.output_tokens,
            "usd": spent.cost_usd or 0.0,
        }
        return [f"{name}={cap!r}" for name, cap in self._caps.items() if totals[name] >= cap]

    def check(self) -> None:
        """Do nothing while there is something left to spend.

        Raises:
            JudgeError: There is not; kind "budget".
        """
        if reached := self._reached():
            spent = self._spent
            cost = "" if spent.cost_usd is None else f", {spent.cost_usd:.4g} US dollars"
            raise JudgeError(
                (
                    f"the spend cap is reached ({', '.join(reached)}): {spent.calls} calls, {spent.input_tokens} + "
                    f"{spent.output_tokens} tokens{cost} were spent; what was scored stays; evaluated again under a higher cap and with a cache of replies, only the rest is paid for"
                ),
                kind="budget",
            )

    def begin(self) -> None:
        """Count a call that is about to go out.

        Raises:
            JudgeError: It may not; kind "budget".
        """
        with self._lock:
            self.check()
            self._spent += Usage(calls=1)

    def record(self, usage: Usage) -> None:
        """Count what a reply cost."""
        with self._lock:
            self._spent += usage


def usage_of(reply: Mapping[str, Any], prices: tuple[float, float] | None) -> Usage:
    """The tokens that a reply says it took, and what they cost."""
    tokens = reply.get("usage")
    tokens = tokens if isinstance(tokens, dict) else {}
    n_in, n_out = (
        count if isinstance(count := tokens.get(name), int) and 0 < count < _MAX_TOKENS else 0
        for name in ("prompt_tokens", "completion_tokens")
    )
    cost_usd = None if prices is None else (n_in * prices[0] + n_out * prices[1]) / 1e6
    return Usage(input_tokens=n_in, output_tokens=n_out, cost_usd=cost_usd)
