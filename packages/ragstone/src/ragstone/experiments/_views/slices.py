"""Slices: the share of wrong answers by topic, release, model or any other label."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ragstone.errors import ConfigurationError
from ragstone.stats import Estimate
from ragstone.views import SliceRow, SliceTable

_MIN_VALUES: Final = 2
_MAX_VALUES: Final = 12
"""Most values of a label that is shown without being asked for."""
_MIN_ANSWERS: Final = 20
"""Fewest answers of a value that is shown without being asked for."""
_MAX_NAMED_VALUES: Final = 50
"""Most rows of a label that is asked for."""
_MAX_TABLES: Final = 4
_NOT_SLICED: Final = frozenset({"user_id", "session_id", "status", "source"})
"""Labels that are shown only if they are asked for."""

EstimateShare = Callable[[Sequence[str], Sequence[bool], int], Estimate | None]
"""Estimates a share from sample ids, flags and the number of shares whose intervals hold together."""


class SliceLabels:
    """Labels of all samples, as far as they can make slices.

    `by` are keys that are asked for. Empty: every key with 2 to 12 values, of which each has at least 20 answers.
    """

    def __init__(self, by: Sequence[str] = ()) -> None:
        self._by = tuple(dict.fromkeys(by))
        self._labels: dict[str, dict[str, tuple[str, ...]]] = {}
        """Values by key and sample id."""
        self._values: dict[str, dict[str, str]] = {}
        """Different values by key, so that each text is kept once."""
        self._dropped: set[str] = set()

    def add(self, sample_id: str, labels: Mapping[str, tuple[str, ...]]) -> None:
        """Add the labels of a sample. A key with too many values is forgotten."""
        for key, values in labels.items():
            if key in self._dropped or (key not in self._by if self._by else key in _NOT_SLICED):
                continue
            known = self._values.setdefault(key, {})
            kept = tuple(known.setdefault(value, value) for value in values)
            self._labels.setdefault(key, {})[sample_id] = kept
            if not self._by and len(known) > _MAX_VALUES:
                self._dropped.add(key)
                del self._labels[key], self._values[key]

    def tables(self, wrong: Mapping[str, bool], share: EstimateShare) -> tuple[SliceTable, ...]:
        """Count wrong answers by label. `wrong` has the judged answers by id.

        Raise ConfigurationError if no sample has a key that is asked for.
        """
        missing = [key for key in self._by if key not in self._labels]
        if missing:
            raise ConfigurationError(f"--by {missing[0]}: no sample has a text or a number under this metadata key")
        keys = self._by or tuple(self._labels)
        tables = (self._table(key, self._labels[key], wrong, share) for key in keys)
        return tuple(table for table in tables if table is not None)[: None if self._by else _MAX_TABLES]

    def names(self, tables: Sequence[SliceTable]) -> dict[str, tuple[str, ...]]:
        """Return by sample id the labels that have a row in the tables, each as "key=value"."""
        names: dict[str, tuple[str, ...]] = {}
        for table in tables:
            texts = {row.value: (f"{table.key}={row.value}",) for row in table.rows}
            for sample_id, values in self._labels[table.key].items():
                own = [texts[value] for value in values if value in texts]
                if own:
                    before = names.get(sample_id)
                    names[sample_id] = own[0] if before is None and len(own) == 1 else sum(own, before or ())
        return names

    def _table(
        self, key: str, by_sample: Mapping[str, tuple[str, ...]], wrong: Mapping[str, bool], share: EstimateShare
    ) -> SliceTable | None:
        ids: dict[str, list[str]] = {}
        for sample_id in wrong:
            for value in by_sample.get(sample_id, ()):
                ids.setdefault(value, []).append(sample_id)
        shown = ids
        if self._by:
            largest = sorted(ids, key=lambda value: (-len(ids[value]), value))[:_MAX_NAMED_VALUES]
            shown = {value: ids[value] for value in largest}
        elif not (len(ids) >= _MIN_VALUES and all(len(own) >= _MIN_ANSWERS for own in ids.values())):
            return None
        rows = []
        for value, own in shown.items():
            flags = [wrong[sample_id] for sample_id in own]
            estimate = share(own, flags, len(shown))
            if estimate is not None:
                rows.append(SliceRow(value=value, n=len(own), n_wrong=sum(flags), share=estimate))
        covered = {sample_id for own in shown.values() for sample_id in own}
        rows.sort(key=lambda row: (-row.share.value, row.value))
        return SliceTable(key=key, rows=tuple(rows), n_without=len(wrong) - len(covered))
