"""Budget: a limit on calls, tokens or cost. When it is reached, no more requests are sent."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from ragstone._util.fork import after_fork_in_child
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.schema import Usage

_MAX_TOKENS: Final = 10**7
"""Larger numbers are ignored. No request has as many tokens, and JSON integers can exceed floats and databases."""


class Budget:
    """A limit on calls, tokens or US dollars. When it is reached, no more requests are sent.

    Several models may share one budget. The number of calls never exceeds its limit. Tokens and dollars are known after
    a reply, so they can exceed their limits by the requests that are in flight at that moment. After a reply whose
    tokens or cost are unknown, a limit on them cannot be counted, and no more requests are sent either. Retries count.
    The count starts when the object is created, and each process has its own.

    Args:
        calls: Maximum number of HTTP requests.
        tokens: Maximum number of input and output tokens together, as the endpoint counts them.
        usd: Maximum cost in US dollars. The models need `usd_per_million_tokens`.

    Raises:
        ConfigurationError: If no limit is given, or one is not above 0.

    Examples:
        ```python
        judge = OpenAICompatibleJudge(url, usd_per_million_tokens=(0.15, 0.6), budget=Budget(usd=5))
        ```
    """

    def __init__(self, *, calls: int | None = None, tokens: int | None = None, usd: float | None = None) -> None:
        stated = {"calls": calls, "tokens": tokens, "usd": usd}
        self._limits: dict[str, Any] = {name: limit for name, limit in stated.items() if limit is not None}
        if not self._limits or not all(limit > 0 for limit in self._limits.values()):
            actual = ", ".join(f"{name}={limit!r}" for name, limit in self._limits.items()) or "none"
            raise ConfigurationError(f"a Budget needs calls, tokens or usd, each above 0, got {actual}")
        self.needs_prices = usd is not None
        """Whether a model with this budget needs `usd_per_million_tokens`."""
        self._spent = Usage()
        self._uncounted: str | None = None
        self._lock = threading.Lock()
        after_fork_in_child(self._after_fork)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process starts to count at 0.
        return partial(type(self), **self._limits), ()

    def __repr__(self) -> str:
        return f"Budget({', '.join(f'{name}={limit!r}' for name, limit in self._limits.items())})"

    @property
    def limits(self) -> Mapping[str, Any]:
        """The limits that were given: `calls`, `tokens`, `usd`."""
        return self._limits

    @property
    def spent(self) -> Usage:
        """Usage counted against this budget so far."""
        return self._spent

    @property
    def reached(self) -> bool:
        """Whether the budget is reached, so that no more requests are sent."""
        return bool(self._uncounted or self._reached())

    def _reached(self) -> list[str]:
        totals = amounts_of(self._spent)
        return [f"{name}={limit!r}" for name, limit in self._limits.items() if totals.get(name, -1) >= limit]

    def check(self) -> None:
        """Check that the budget is not reached.

        Raises:
            JudgeError: If it is reached or cannot be counted, with kind "budget".
        """
        reached, remedy = self._reached(), "raise the budget"
        if not (reached or self._uncounted):
            return
        spent = self._spent
        problem = f"the budget is reached ({', '.join(reached)})"
        if not reached:
            problem, remedy = f"the budget {self._uncounted}", "change the budget"
        raise JudgeError(
            f"{problem}: {spent}. Existing scores are kept. To score the rest, {remedy} and evaluate again, with a "
            "reply cache to avoid repeated calls",
            kind="budget",
        )

    def begin(self) -> None:
        """Count a call before it is sent.

        Raises:
            JudgeError: If the budget is reached, with kind "budget".
        """
        with self._lock:
            self.check()
            self._spent += Usage(calls=1)

    def take_back(self) -> None:
        """Do not count a call that could not be sent."""
        with self._lock:
            self._spent = self._spent.model_copy(update={"calls": self._spent.calls - 1})

    async def acquire(self) -> None:
        """Count a call before it is sent, as `begin`. In another process, this waits for the one that has the budget.

        Raises:
            JudgeError: If the budget is reached, with kind "budget".
        """
        self.begin()

    def record(self, usage: Usage) -> None:
        """Count the tokens and the cost of a reply."""
        with self._lock:
            self._spent += usage
            self._uncounted = self._uncounted or find_uncounted(self._limits, usage)


def amounts_of(usage: Usage) -> dict[str, float]:
    """Return the numbers that a budget limits, as far as they are known: `calls`, `tokens` and `usd`."""
    amounts: dict[str, float] = {"calls": usage.calls, "tokens": usage.input_tokens + usage.output_tokens}
    return amounts if usage.cost_usd is None else amounts | {"usd": usage.cost_usd}


def find_uncounted(limits: Iterable[str], usage: Usage) -> str | None:
    """Return why the usage of replies shows that a limit cannot be counted, or None. Such a limit would allow everything."""
    for name in limits:
        if name == "usd" and usage.cost_usd is None and usage.counted_calls:
            return "in usd cannot be counted: set usd_per_million_tokens of every model"
        if (name == "usd" and usage.cost_usd is None) or (name == "tokens" and not usage.counted_calls):
            return f"in {name} cannot be counted: a model does not report its tokens. Limit calls"
    return None


def usage_of(reply: Mapping[str, Any], prices: tuple[float, float] | None) -> Usage:
    """Return the tokens that a reply reports, and their cost if it is known of this call."""
    tokens = reply.get("usage")
    tokens = tokens if isinstance(tokens, dict) else {}
    n_in, n_out = (
        count if type(count := tokens.get(name)) is int and 0 <= count < _MAX_TOKENS else None
        for name in ("prompt_tokens", "completion_tokens")
    )
    # Every prompt has tokens, and only embeddings do not have output tokens.
    is_counted = bool(n_in) and (n_out is not None or "choices" not in reply)
    usage = Usage(input_tokens=n_in or 0, output_tokens=n_out or 0, counted_calls=int(is_counted))
    # Free calls need no count.
    if prices is None or (any(prices) and not is_counted):
        return usage
    cost_usd = (usage.input_tokens * prices[0] + usage.output_tokens * prices[1]) / 1e6
    return usage.model_copy(update={"cost_usd": cost_usd, "priced_calls": 1})
