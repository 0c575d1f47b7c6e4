"""Options of `ragstone evaluate --app`: the application, how it is called, and the file of its answers."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from ragstone.errors import ConfigurationError


def load_app(spec: str, *, option: str = "--app") -> Any:
    """Import an object by `MODULE:NAME`, with the current directory on the import path as for `python -m`."""
    module_name, separator, path = spec.partition(":")
    if not (separator and module_name and path) or module_name.endswith(".py") or "/" in module_name:
        raise ConfigurationError(
            f"{option} must be MODULE:NAME, got {spec!r}. Example: {option} rag.chain:ask for rag/chain.py"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"{option} {spec!r}: importing {module_name!r} failed, because {error.name!r} is not installed. Run "
                "ragstone in the application's environment"
            ) from error
        raise ConfigurationError(
            f"{option} {spec!r}: the module {module_name!r} was not found in {here} or among the installed packages. "
            "Run the command in the directory that contains it"
        ) from error
    except Exception as error:
        raise ConfigurationError(
            f"{option} {spec!r}: importing {module_name!r} raised {type(error).__name__}: {error}"
        ) from error
    for name in path.split("."):
        if not hasattr(found, name):
            names = ", ".join(sorted(n for n, item in vars(found).items() if callable(item) and not n.startswith("_")))
            raise ConfigurationError(
                f"{option} {spec!r}: {module_name!r} does not have {path!r}. Its functions and classes: {names or 'none'}"
            )
        found = getattr(found, name)
    return found


def default_traces(file: str, spec: str) -> Path:
    """Return the path for the captured calls of an application on a file."""
    stem = "stdin" if file == "-" else Path(file).stem
    return Path(f"{stem}.{spec.replace(':', '.')}.traces.jsonl")
