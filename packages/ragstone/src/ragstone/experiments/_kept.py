"""The outcomes of an evaluation that an interruption leaves, from which the next run resumes."""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import ValidationError

from ragstone._util.id_table import IdTable
from ragstone._util.partial_file import PartialFile
from ragstone._util.quantities import count
from ragstone.errors import ConfigurationError
from ragstone.schema import SCHEMA_VERSION, Failure, FailureKind, Outcome, Sample, check_version, outcome_adapter

_REPEATED: Final[frozenset[FailureKind]] = frozenset(
    {"timeout", "unavailable", "rejected", "budget", "application", "bug"}
)
"""Failures that another attempt may avoid. A sample with one of them is scored again."""


class RunIdentity(NamedTuple):
    """What the outcomes of a run depend on. Only a run with the same identity resumes it."""

    metrics: Sequence[tuple[str, str, str]]
    """Name, version and hash of the judge of each metric."""
    judge: str
    app: str
    """Name of the application, or an empty text without one."""
    repeats: int
    data: str
    """Digest of the samples."""


class KeptOutcomes(PartialFile):
    """The outcomes of complete samples, one line for each.

    A sample is complete if all its metrics have an outcome that another attempt would not change. The line of a sample
    is written as a whole when it is complete.
    """

    def __init__(self, output: str | os.PathLike[str] | None) -> None:
        super().__init__(output, option="--output")
        self._ids, self._places, self._digests = IdTable(), array("Q"), array("Q")

    def open(self, run: RunIdentity) -> None:
        """Read what an earlier run left, and begin to keep outcomes.

        Raise ConfigurationError if the earlier run is another one, or another process writes the file, and StoreError
        if it cannot be read or written (StoreVersionError: another version of Ragstone wrote it).
        """
        is_new = True

        def read(lines: Iterator[tuple[int, bytes]]) -> None:
            nonlocal is_new
            for place, line in lines:
                if is_new:
                    self._check(line, run)
                    is_new = False
                else:
                    self._note(line, place)

        self._resume(read)
        if is_new:
            self._write(json.dumps({"evaluation": SCHEMA_VERSION, **run._asdict()}))

    def _check(self, line: bytes, run: RunIdentity) -> None:
        """Check that the file was written by the same run."""
        path = str(self.path)
        start_again = "delete this file to start again, or give another --output"
        try:
            before = json.loads(line)
            check_version(f"the interrupted evaluation {path!r}", before["evaluation"])
            old = RunIdentity(**{name: before[name] for name in RunIdentity._fields})
            metrics = [tuple(map(str, metric)) for metric in old.metrics]
        except (ValueError, KeyError, TypeError):
            raise ConfigurationError(f"{path!r} is not an interrupted evaluation: {start_again}") from None
        differences = []
        if [metric[:2] for metric in metrics] != [tuple(metric[:2]) for metric in run.metrics]:
            differences.append(f"metrics {_listed(metrics)} instead of {_listed(run.metrics)}")
        elif metrics != [tuple(metric) for metric in run.metrics] or old.judge != run.judge:
            differences.append(
                f"judge {old.judge!r}, with other settings"
                if old.judge == run.judge
                else f"judge {old.judge!r} instead of {run.judge!r}"
            )
        if (old.app, old.repeats) != (run.app, run.repeats):
            differences.append(f"{_describe_app(old)} instead of {_describe_app(run)}")
        if old.data != run.data:
            differences.append("other rows: the data has changed")
        if differences:
            raise ConfigurationError(
                f"{path!r} holds an interrupted run with {', and '.join(differences)}. Run that command again to "
                f"resume it, or {start_again}"
            )

    def _note(self, line: bytes, place: int) -> None:
        try:
            found = json.loads(line)
            id_, digest = str(found["sample_id"]), int(found["digest"], 16)
            is_whole = isinstance(found["outcomes"], list) and 0 <= digest < 2**64
        except (ValueError, KeyError, TypeError):
            is_whole = False
        if not is_whole:
            self.n_cut += 1
            return
        self.n_kept += 1
        index = self._ids.find(id_)
        if index is None:
            self._ids.add(id_)
            self._places.append(place)
            self._digests.append(digest)
        else:  # an application that answered again
            self._places[index], self._digests[index] = place, digest

    def find(self, sample: Sample) -> tuple[Outcome, ...] | None:
        """Return the outcomes of an earlier run for the same sample, or None. StoreError if the file is unreadable."""
        index = self._ids.find(sample.id)
        if index is None or self._digests[index] != _digest(sample):
            return None
        line = self._line(self._places[index])
        try:
            return tuple(outcome_adapter.validate_python(outcome) for outcome in json.loads(line)["outcomes"])
        except ValidationError:
            self.n_cut += 1
            return None

    def add(self, sample: Sample, outcomes: Sequence[Outcome]) -> None:
        """Keep the outcomes of a sample if it is complete. Raise StoreError if the file cannot be written."""
        if self._file is None or any(isinstance(o, Failure) and o.kind in _REPEATED for o in outcomes):
            return
        line = {
            "sample_id": sample.id,
            "digest": f"{_digest(sample):x}",
            "outcomes": [outcome.model_dump(mode="json") for outcome in outcomes],
        }
        self._write(json.dumps(line))
        self.n_kept += 1


def count_kept(path: str | os.PathLike[str], *, n_heads: int = 1) -> int:
    """Return the number of lines that an interrupted run has kept, after `n_heads` lines that describe it."""
    path = Path(path)
    partial = path.with_name(f"{path.name}.partial")
    if not partial.is_file():
        return 0
    with partial.open("rb") as file:
        return max(sum(line.endswith(b"\n") for line in file) - n_heads, 0)


def digest_samples(samples: Iterable[Sample]) -> str:
    """Return a digest of all samples in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for sample in samples:
        digest.update(_digest(sample).to_bytes(8, "little"))
    return digest.hexdigest()


def _digest(sample: Sample) -> int:
    # Objects of other types in the metadata may have a text with an address, which changes with each process.
    text = json.dumps(sample.model_dump(), default=lambda value: type(value).__name__)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _listed(metrics: Iterable[Sequence[str]]) -> str:
    return ", ".join(metric[0] for metric in metrics)


def _describe_app(run: RunIdentity) -> str:
    if not run.app:
        return "no application"
    return f"application {run.app!r}" + (f" and {count(run.repeats, 'repeat')}" if run.repeats > 1 else "")
