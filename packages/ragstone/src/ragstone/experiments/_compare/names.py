"""Names for systems that were given none."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragstone.experiments._evaluate import Experiment
from ragstone.experiments._outcomes import OutcomeSource, TimeRange
from ragstone.store import describe_store, is_database_url

__all__ = ["names_of"]


def names_of(sources: Sequence[OutcomeSource]) -> list[str]:
    """What systems are called that nobody named: experiments by letters, files by as much of their path as tells them apart.

    Args:
        sources: The systems, in a row.
    """
    given = {i: source.name for i, source in enumerate(sources) if isinstance(source, TimeRange)}
    paths = {
        i: Path(source).absolute()
        for i, source in enumerate(sources)
        if not isinstance(source, Experiment | TimeRange) and not is_database_url(source)
    }
    given |= {
        i: describe_store(os.fspath(s)) for i, s in enumerate(sources) if isinstance(s, str) and is_database_url(s)
    }
    names = {i: path.stem for i, path in paths.items()}
    deepest = max((len(path.parts) for path in paths.values()), default=0)
    for depth in range(2, deepest + 1):
        shared = {name for name, n in Counter(names.values()).items() if n > 1}
        for i, name in list(names.items()):
            if name in shared:
                *folders, _ = paths[i].parts[-depth:]
                names[i] = "/".join([*folders, paths[i].stem])
    # What still has the same name is the same file but for its suffix, or the same file.
    for name, n in Counter(names.values()).items():
        if n > 1:
            for i in [i for i, same in names.items() if same == name]:
                names[i] = f"{paths[i]} ({i + 1})"
    for name, n in Counter(given.values()).items():
        if n > 1:
            for i in [i for i, same in given.items() if same == name]:
                given[i] = f"{name} ({i + 1})"
    names |= given
    letters = (letter for letter in _letters() if letter not in set(names.values()))
    return [names[i] if i in names else next(letters) for i in range(len(sources))]


def _letters() -> Iterator[str]:
    """A, B, ..., Z, AA, AB, ..."""
    for n in itertools.count(1):
        yield from map("".join, itertools.product("ABCDEFGHIJKLMNOPQRSTUVWXYZ", repeat=n))
