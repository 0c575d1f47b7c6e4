"""Names of options in messages, by the interface that the user came through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ragstone.settings import public_name

Role = Literal["judge", "reader", "embedder"]

_FLAGS: Final = {
    "url": "--{role}",
    "model": "--{role}-model",
    "api_key": "--{role}-api-key-env",
    "api_key_env": "--{role}-api-key-env",
    "usd_per_million_tokens": "--usd-per-million-tokens",
    "max_tokens": "--{role}-max-tokens",
    "score_mode": "--{role}-score-mode",
    "draws": "--{role}-draws",
    "prompt": "--{role}-prompt",
}
"""Options that are flags of the commands. All others are keys of a table only."""
_NO_FLAGS: Final[frozenset[tuple[str, str]]] = frozenset({("embedder", "usd_per_million_tokens")})
"""Flags that do not apply to a role: embedders have other prices than chat models."""


@dataclass(frozen=True, slots=True)
class OptionNames:
    """Names of the options of a judge, a reader or an embedder: arguments, command-line options, or keys of a TOML table."""

    role: Role = "judge"
    interface: Literal["python", "command line", "file"] = "python"

    @property
    def table(self) -> str:
        """The role's table in the configuration file."""
        return f"[{self.role}]"

    def option(self, key: str) -> str:
        """Return the name of an option, for "set ..." and "with ...".

        Args:
            key: Name of the argument, such as "model".
        """
        if self._has_flag(key):
            return _FLAGS[key].format(role=self.role)
        if self.interface == "python":
            return f"{key}=..."
        # A table holds the name of the variable, never the key itself.
        return f"`{'api_key_env' if key == 'api_key' else key}` in the table {self.table}"

    def value(self, key: str, value: object) -> str:
        """Return an option with its value, as the user wrote it. A URL is shown without credentials and query."""
        if key == "url":
            value = public_name(str(value))
        if self._has_flag(key):
            return f"{_FLAGS[key].format(role=self.role)} {value!r}"
        if self.interface == "python":
            return f"{self.role if key == 'url' else key}={value!r}"
        return f"{key} = {value!r} in the table {self.table}"

    def _has_flag(self, key: str) -> bool:
        return self.interface == "command line" and key in _FLAGS and (self.role, key) not in _NO_FLAGS
