"""Names of options in messages, by the interface that the user came through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from ragstone.settings import public_name, variable_of

Role = Literal["judge", "reader", "embedder"]

_FLAGS: Final = {"judge": ("url", "model"), "reader": ("url",), "embedder": ()}
"""Keys with a flag of the commands. The others are set with `--set`."""


@dataclass(frozen=True, slots=True)
class OptionNames:
    """Names of the options of a judge, a reader or an embedder: arguments, command-line options, or keys of a TOML table."""

    role: Role = "judge"
    interface: Literal["python", "command line", "file"] = "python"
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """The source of each dotted key, for the command line."""

    def option(self, key: str) -> str:
        """Return the name of an option, for "set ..." and "with ..."."""
        # A setting holds the name of the variable, never the key itself.
        key = "api_key_env" if key == "api_key" and self.interface != "python" else key
        if self.interface == "command line":
            return self._flag(key) if key in _FLAGS[self.role] else f"{self.role}.{key}"
        return f"{key}=..." if self.interface == "python" else f"`{key}` in the table [{self.role}]"

    def value(self, key: str, value: object) -> str:
        """Return an option with its value, as the user wrote it. A URL is shown without credentials and query."""
        if key == "url":
            value = public_name(str(value))
        source = self.sources.get(f"{self.role}.{key}")
        if source == "environment":
            return f"{variable_of(f'{self.role}.{key}')}={value!r}"
        if self.interface == "command line" and source != "file":
            return f"{self._flag(key)} {value!r}" if key in _FLAGS[self.role] else f"{self.role}.{key}={value!r}"
        if self.interface == "python":
            return f"{self.role if key == 'url' else key}={value!r}"
        return f"{key} = {value!r} in the table [{self.role}]"

    def _flag(self, key: str) -> str:
        return f"--{self.role}" if key == "url" else f"--{self.role}-{key}"
