"""Imports at first use: the module of a name (PEP 562), and packages that an extra of Ragstone installs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module

from ragstone.errors import MissingExtraError


def lazy_names(
    package: str, names: Mapping[str, str], source: str | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package. `names` are separated by blanks, by the module that has them.

    The modules are in the package `source` (default: the package itself).
    """
    module_of = {name: module for module, exported in names.items() for name in exported.split()}

    def get(name: str) -> object:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")  # codespell:ignore
        value: object = getattr(import_module(f"{source or package}.{module}"), name)
        # The next use finds the name without this function.
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return get, list_names


@contextmanager
def needs_extra(extra: str, package: str, feature: str) -> Iterator[None]:
    """Import packages in the block. If one is missing, the error says how to install it.

    `extra` is empty for a dependency of Ragstone that an installation without dependencies does not have.

    Raise MissingExtraError if an import in the block fails.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(
            feature=feature, package=package, extra=f"ragstone[{extra}]" if extra else "ragstone"
        ) from error
