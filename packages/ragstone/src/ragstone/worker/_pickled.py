"""Objects that are sent to another process: checked where they are given, and read with an error that says what to do."""

from __future__ import annotations

import base64
import pickle
from typing import Any

from ragstone.errors import ConfigurationError


def to_pickled(value: object) -> str:
    """Return an object as text for another process."""
    return base64.b64encode(pickle.dumps(value)).decode()


def from_pickled(text: str) -> Any:
    """Return an object that `to_pickled` wrote, read from a pipe that only its writer has.

    Raises:
        ConfigurationError: If a class is not in a module that this process can import.
    """
    try:
        return pickle.loads(base64.b64decode(text))  # noqa: S301 - the caller has the text from its owner
    except (AttributeError, ImportError) as error:
        raise ConfigurationError(
            f"{error}. Define the classes of metrics and models in a module that another process can import, "
            "not in the program itself or in a notebook."
        ) from error
