"""Test sets: the file of looks next to a set, and a verdict on each change with one error rate for all looks."""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, Self

from ragstone._util.filelock import try_flock
from ragstone._util.files import open_private, sync_directory
from ragstone._util.lazy import needs_extra
from ragstone._util.quantities import count
from ragstone.errors import ApplicationError, ConfigurationError, DataError, StoreCorruptError, StoreError
from ragstone.experiments._clusters import SampleFields
from ragstone.experiments._spill import read_fields
from ragstone.schema import SCHEMA_VERSION, Failure, Outcome, Sample, Score, check_version

if TYPE_CHECKING:
    from ragstone.experiments._kept import RunIdentity
    from ragstone.metrics import MetricCard

MAX_LOOKS: Final = 30
"""Looks without an accepted change, after which a set is worn. Each has an equal part of the error rate."""
ERROR: Final = 0.05
"""Probability of any false acceptance in all looks of a set."""
ALPHA: Final = ERROR / MAX_LOOKS
GAIN: Final = 0.08
"""The gain for which the power is stated, as a share of the metric's range."""
POWER: Final = 0.9
N_RESAMPLES: Final = 20_000
Ends = Mapping[str, Sequence[float]]
"""Lowest and highest possible decision value by question."""
_SCALE: Final = ("metric", "version", "judge", "judge_hash", "repeats")
"""Fields of a look that must not change, because its scores would not be comparable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One evaluation of a test set."""

    number: int
    verdict: Literal["baseline", "accepted", "not shown", "not ended"]
    """ "not ended": the run stopped early, and the same run resumes this look."""
    metric: str
    before: int | None
    """Number of the last accepted look, with which this one is compared. None for a baseline."""
    n: int
    """Number of questions that count."""
    n_failed: int
    """Number of these without a known score, now or at the last accepted look: each counts with the least possible
    gain."""
    gain: float | None
    """Mean gain of an accepted change over the questions with known scores, in the metric's own units. It is more than
    the true gain on average, because small gains are not accepted. None otherwise: a test set wears out if it is shown."""
    p_value: float | None
    """Of an accepted change. None otherwise."""
    following: str
    """What the next look can find."""

    @property
    def is_shown(self) -> bool:
        """Whether scores may be shown: those of a change that was not accepted would be selected by."""
        return self.verdict in ("baseline", "accepted")

    def __str__(self) -> str:
        match self.verdict:
            case "baseline":
                text = f"baseline: look {self.number} has {count(self.n, 'question')}. Changes are compared with it."
            case "accepted":
                text = (
                    f"accepted: {self.metric} is better than at look {self.before}, by {self.gain:.3g} "
                    f"(n = {self.n:,}, p = {self.p_value:.2g}, needed: {ALPHA:.2g}). The next look is compared with this one."
                )
            case "not shown":
                text = (
                    f"not shown: {count(self.n, 'question')} do not show that {self.metric} is better than at look "
                    f"{self.before}. Undo the change, or test it on fresh cases."
                )
            case _:
                text = f"look {self.number} did not end. Run the same command to resume it."
        failed = f"\n{count(self.n_failed, 'question')} without a known score: the least possible gain counts."
        return f"{text}{failed * bool(self.n_failed)}\n{self.following}"


def find_share(n: int, noise: float) -> float:
    """Return the probability that one look accepts a gain of `GAIN` on `n` questions.

    `noise` is the variance of a question's difference without a gain, in squared ranges. It is taken as the share of
    answers that change from right to wrong or back, which with the gain makes an exact sign test.
    """
    import numpy as np

    with needs_extra("", "scipy", "a test set"):
        from scipy.stats import binom

    up = min(noise / 2 + GAIN, 1.0)
    down = min(noise / 2, 1 - up)
    changed = np.arange(1, n + 1)
    wins = binom.sf(binom.isf(ALPHA, changed, 0.5), changed, up / (up + down))
    return float((binom.pmf(changed, n, up + down) * wins).sum())


def describe_looks(data: str | os.PathLike[str]) -> str:
    """Say what the next look at a test set can find."""
    path = _path_of(data)
    entries = _read(io.BytesIO(path.read_bytes()), path)[0] if path.exists() else []
    return _History(entries).describe()


def _path_of(data: object) -> Path:
    if not isinstance(data, str | os.PathLike) or not Path(data).is_file():
        raise ConfigurationError(
            f"a test set must be a file on this machine, got {data!r}. Its looks are written next to it"
        )
    return Path(f"{os.fspath(data)}.looks")


def _read(file: Iterable[bytes], path: Path) -> tuple[list[dict[str, Any]], int, int]:
    """Return the entries, the checksum of all lines, and where they end.

    A line without an end was being written when a process ended, before a verdict was shown.
    """
    entries: list[dict[str, Any]] = []
    checksum = end = 0
    for number, line in enumerate(file, 1):
        if not line.endswith(b"\n"):
            break
        checksum = zlib.crc32(line[9:-1], checksum)
        if line[:9] != b"%08x " % checksum:
            raise StoreCorruptError(
                f"{str(path)!r} is damaged: the checksum of line {number} is wrong, so a look may be missing. Restore "
                "the file from a copy, or collect fresh cases in a new file"
            )
        entries.append(json.loads(line[9:-1]))
        check_version(f"line {number} of {str(path)!r}", entries[-1]["looks"])
        end += len(line)
    return entries, checksum, end


class _History:
    """The looks at a test set so far."""

    def __init__(self, entries: Sequence[dict[str, Any]]) -> None:
        self.starts = [entry for entry in entries if "verdict" not in entry]
        self.ends = {entry["look"]: entry for entry in entries if "verdict" in entry}
        kept = [entry for entry in self.ends.values() if entry["verdict"] in ("baseline", "accepted")]
        self.accepted = kept[-1] if kept else None
        after = kept[0]["look"] if kept else math.inf
        """A look before the baseline does not compare anything."""
        self.n_spent = sum(
            start["look"] > after and self.ends.get(start["look"], {"verdict": "not shown"})["verdict"] == "not shown"
            for start in self.starts
        )
        known = [entry["noise"] for entry in self.ends.values() if entry.get("noise") is not None]
        self.noise = sum(known) / len(known) if known else None

    def is_open(self, app: str) -> bool:
        """Return whether the last look is of this application and did not end."""
        return bool(self.starts) and self.starts[-1]["look"] not in self.ends and self.starts[-1]["app"] == app

    def describe(self) -> str:
        """Say what the next look can find."""
        if self.accepted is None:
            return "The next look is the baseline."
        least = "" if self.noise is not None else "at least "
        noise = self.noise or 0.0
        if self.n_spent >= MAX_LOOKS:
            n = next(n for n in itertools.count(10, 10) if find_share(n, noise) >= POWER)
            return (
                f"this set is worn: {least}{n:,} fresh cases needed, to find a gain of {GAIN:.0%} of the range in {POWER:.0%}. Write "
                "them to a new file. Its first evaluation is its baseline."
            )
        n = self.starts[-1]["n"]
        least = "" if self.noise is not None else " (how many answers change at random is not known yet)"
        return (
            f"look {len(self.starts) + 1}, {self.n_spent} of {MAX_LOOKS} spent: with {count(n, 'question')}, a gain of {GAIN:.0%} of "
            f"the range is found in {'at most ' * bool(least)}{find_share(n, noise):.0%}{least}."
        )


class Looks:
    """The file of looks at a test set, open for one run: `with looks:`, then `open`, then `decide`.

    A look counts from its first call of the application. If it does not end, the same run resumes it if answers of it
    are kept. Otherwise its part of the error rate is spent. A run whose application answered nothing is withdrawn.
    """

    def __init__(self, data: object, metric: str, cards: Sequence[MetricCard]) -> None:
        self._path = _path_of(data)
        if not (found := [card for card in cards if card.name == metric]):
            raise ConfigurationError(
                f"the metric {metric!r} of a test set is not scored. Scored metrics: {', '.join(card.name for card in cards)}"
            )
        self._card = found[0]
        if not math.isfinite(self._card.high - self._card.low):
            raise ConfigurationError(f"a test set needs a metric with a finite range, and {metric!r} does not have one")
        self._file: IO[bytes] | None = None
        self._entries: list[dict[str, Any]] = []
        self._checksum = 0
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._file is not None:
            if kind is not None and issubclass(kind, ApplicationError):
                self._add({"verdict": "withdrawn"})
            self._file.close()

    def open(self, run: RunIdentity, n: int, *, resumes: bool) -> None:
        """Begin a look, or resume the last one.

        Raise DataError if the set has other content or is worn, ConfigurationError if its scores would not be
        comparable or another process evaluates it, and StoreError if the file is damaged or cannot be written.
        """
        name, version, judge_hash = next(metric for metric in run.metrics if metric[0] == self._card.name)
        scale = (name, version, run.judge if judge_hash else None, judge_hash, run.repeats)
        about: dict[str, Any] = {"app": run.app, "at": time.time(), "data": run.data, "n": n} | dict(
            zip(_SCALE, scale, strict=True)
        )
        try:
            self._file = open(self._path, "ab+", opener=open_private)  # noqa: SIM115 - closed by `__exit__`
            sync_directory(self._path.absolute().parent)
        except OSError as error:
            raise StoreError(f"{str(self._path)!r} cannot be written: {error.strerror}") from error
        if not try_flock(self._file.fileno()):
            raise ConfigurationError(
                f"another process evaluates this test set ({str(self._path)!r}). Wait until it ends"
            )
        self._file.seek(0)
        self._entries, self._checksum, end = _read(self._file, self._path)
        self._file.truncate(end)
        history = _History(self._entries)
        if history.starts:
            self._check(history.starts[0], about)
        if resumes and history.is_open(run.app):
            self._number = history.starts[-1]["look"]
            return
        if history.n_spent >= MAX_LOOKS:
            raise DataError(history.describe())
        self._number = len(history.starts) + 1
        self._add(about)

    def _check(self, first: dict[str, Any], about: dict[str, Any]) -> None:
        if first["data"] != about["data"]:
            raise DataError(
                f"{str(self._path)!r} has the looks at another content ({first['n']:,} questions then, {about['n']:,} "
                "now). Restore the content, or give the new set a name of its own. Its first evaluation is its baseline"
            )
        if changed := [
            f"{name} {about[name]!r} instead of {first[name]!r}" for name in _SCALE if first[name] != about[name]
        ]:
            raise ConfigurationError(
                f"scores are not comparable with those of look 1 in {str(self._path)!r}: {', '.join(changed)}. Use "
                "what look 1 used, or begin again with fresh cases in a new file"
            )

    def _add(self, entry: dict[str, Any]) -> None:
        """Write an entry to the disk."""
        assert self._file is not None  # noqa: S101 - opened before
        entry = {"looks": SCHEMA_VERSION, "look": self._number} | entry
        body = json.dumps(entry).encode()
        self._checksum = zlib.crc32(body, self._checksum)
        try:
            self._file.write(b"%08x %b\n" % (self._checksum, body))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StoreError(f"{str(self._path)!r} cannot be written: {error.strerror}") from error
        self._entries.append(entry)

    def stop(self) -> Look:
        """Return the look of a run that stopped early."""
        return self._look("not ended", None, {"n": 0, "n_failed": 0})

    def decide(self, outcomes: Iterable[Outcome], samples: Iterable[Sample], cluster: str | None) -> Look:
        """Compare the scores with those of the last accepted look, and write the verdict before it is returned.

        Raise DataError if a baseline does not have a score.
        """
        values = {o.sample_id: self._possible(o) for o in outcomes if o.metric == self._card.name}
        known = {id_: ends for id_, ends in values.items() if ends is not None}
        history = _History(self._entries)
        if history.accepted is None:
            n_failed = sum(low < high for low, high in known.values())
            if n_failed == len(known):
                self._add({"verdict": "withdrawn"})
                raise DataError(f"no question has a score of {self._card.name}, so it cannot be a baseline")
            self._add({"verdict": "baseline", "values": known})
            return self._look("baseline", None, {"n": len(known), "n_failed": n_failed})
        test = self._test(known, history.accepted["values"], read_fields(samples, cluster), cluster)
        verdict = "accepted" if test["p_value"] <= ALPHA else "not shown"
        self._add({"verdict": verdict, "values": known} | test)
        return self._look(verdict, history.accepted["look"], test)

    def _look(self, verdict: Any, before: int | None, test: dict[str, Any]) -> Look:
        is_accepted = verdict == "accepted"
        return Look(
            number=self._number,
            verdict=verdict,
            metric=self._card.name,
            before=before,
            n=test["n"],
            n_failed=test["n_failed"],
            gain=test["gain"] if is_accepted else None,
            p_value=test["p_value"] if is_accepted else None,
            following=_History(self._entries).describe(),
        )

    def _possible(self, outcome: Outcome) -> tuple[float, float] | None:
        """Return the lowest and highest possible decision value. None if the metric is not applicable."""
        card = self._card
        if isinstance(outcome, Score) and (value := card.decision(outcome)) is not None:
            return value, value
        if not isinstance(outcome, Score | Failure):
            return None
        bounds = card.bounds_of(outcome) if isinstance(outcome, Failure) and not card.decided_by else None
        return bounds or (card.low, card.high)

    def _test(self, now: Ends, before: Ends, fields: SampleFields, cluster: str | None) -> dict[str, Any]:
        """Test whether the scores are better, each unknown one with the least possible gain."""
        import numpy as np

        from ragstone.experiments._compare.pairs import standard_error
        from ragstone.stats import cluster_codes, simultaneous_differences

        ids = [id_ for id_ in before if id_ in now]
        sign = 1 if self._card.direction == "higher" else -1
        ends = sign * np.array([[now[id_], before[id_]] for id_ in ids]).reshape(-1, 2, 2)
        weights = 1 / np.array([fields.inclusion_probabilities.get(id_, 1.0) for id_ in ids])
        clusters = fields.choose(cluster)
        codes = None if clusters is None or not ids else cluster_codes(clusters.of(ids))
        is_known = (ends[:, :, 0] == ends[:, :, 1]).all(axis=1)
        gains = ends[is_known, 0, 0] - ends[is_known, 1, 0]
        p_value: float | None = None
        if ids:
            (result,) = simultaneous_differences(
                [np.stack([ends[:, 0].min(axis=1), ends[:, 1].max(axis=1)], axis=1)],
                clusters=None if codes is None else codes.tolist(),
                weights=weights,
                pairs=[(0, 1)],
                alternative="greater",
                n_resamples=N_RESAMPLES,
            )
            p_value = result.pairs[0].p_value
        noise = None
        if gains.size > 1:
            error = standard_error(gains, weights[is_known], None if codes is None else codes[is_known].tolist())
            noise = gains.size * (error / (self._card.high - self._card.low)) ** 2
        gain = float(np.average(gains, weights=weights[is_known])) if gains.size else None
        return {
            "n": len(ids),
            "n_failed": int((~is_known).sum()),
            "gain": gain,
            "p_value": 1.0 if p_value is None else p_value,
            "noise": noise,
        }
