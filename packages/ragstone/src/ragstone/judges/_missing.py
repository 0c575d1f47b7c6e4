"""`MissingModel`: what stands for a judge, a reader or an embedder that is not named, and the sentence about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from ragstone.errors import ConfigurationError
from ragstone.judges._option_names import Role
from ragstone.judges._protocol import JudgeIdentity

_SHOWN = 5
"""Maximum number of metrics in the sentence."""


def describe_missing(role: Role, metrics: Sequence[str] = ()) -> str:
    """Return the sentence for scores that cannot be computed because no model is named, with the ways out.

    Args:
        role: The role of the model.
        metrics: Names of the metrics that need it.
    """
    shown = ", ".join(metrics[:_SHOWN]) + (f" and {len(metrics) - _SHOWN} more" if len(metrics) > _SHOWN else "")
    a_model = f"an {role}" if role == "embedder" else f"a {role}"
    needs = f"{shown} {'needs' if len(metrics) == 1 else 'need'} {a_model}, and none" if metrics else f"no {role}"
    forms = "http://HOST:PORT/v1, openai:MODEL" + (", local:MODEL" if role == "embedder" else "")
    return f"{needs} is named. Set {role} (--{role}) or RAGSTONE_{role.upper()} to {forms}, or lexical to try the setup"


class MissingModel:
    """A judge, reader or embedder that is not named. Every call raises an error that says how to name one.

    Args:
        role: The role of the model.
    """

    def __init__(self, role: Role) -> None:
        self.role = role

    @property
    def identity(self) -> JudgeIdentity:
        """Identity for results without a score of a model."""
        return JudgeIdentity(name="not named", hash="none")

    async def prepare(self) -> None:
        """Refuse to be used.

        Raises:
            ConfigurationError: Always.
        """
        await self._refuse()

    async def _refuse(self, *_arguments: object, **_options: object) -> NoReturn:
        raise ConfigurationError(describe_missing(self.role))

    ask_text = ask_number = ask_json = estimate_abstention = answer = embed = _refuse

    def is_abstention(self, reply: str) -> bool:  # noqa: ARG002
        """Refuse to be used.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(describe_missing(self.role))

    async def aclose(self) -> None:
        """Do nothing."""
