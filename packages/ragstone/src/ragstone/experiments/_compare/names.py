"""Default names of systems."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragstone.experiments._evaluated import Evaluated
from ragstone.experiments._outcomes import OutcomeSource, TimeRange
from ragstone.store import describe_store, is_database_url


def names_of(sources: Sequence[OutcomeSource]) -> list[str]:
    """Return unique default names: letters for experiments, and for files the shortest distinct part of the path."""
    store_names = {i: source.name for i, source in enumerate(sources) if isinstance(source, TimeRange)}
    paths = {
        i: Path(source).absolute()
        for i, source in enumerate(sources)
        if not isinstance(source, Evaluated | TimeRange) and not is_database_url(source)
    }
    store_names |= {
        i: describe_store(os.fspath(s)) for i, s in enumerate(sources) if isinstance(s, str) and is_database_url(s)
    }
    names = {i: path.stem for i, path in paths.items()}
    deepest = max((len(path.parts) for path in paths.values()), default=0)
    for depth in range(2, deepest + 1):
        shared = {name for name, n in Counter(names.values()).items() if n > 1}
        for i, name in list(names.items()):
            if name in shared:
                *directories, _ = paths[i].parts[-depth:]
                names[i] = "/".join([*directories, paths[i].stem])
    # Names that are still equal belong to the same file, or to files that differ only in their suffix.
    for name, n in Counter(names.values()).items():
        if n > 1:
            for i in [i for i, same in names.items() if same == name]:
                names[i] = f"{paths[i]} ({i + 1})"
    for name, n in Counter(store_names.values()).items():
        if n > 1:
            for i in [i for i, same in store_names.items() if same == name]:
                store_names[i] = f"{name} ({i + 1})"
    names |= store_names
    letters = (letter for letter in _letters() if letter not in set(names.values()))
    return [names[i] if i in names else next(letters) for i in range(len(sources))]


def _letters() -> Iterator[str]:
    """Yield A, B, ..., Z, AA, AB, ..."""
    for n in itertools.count(1):
        yield from map("".join, itertools.product("ABCDEFGHIJKLMNOPQRSTUVWXYZ", repeat=n))
