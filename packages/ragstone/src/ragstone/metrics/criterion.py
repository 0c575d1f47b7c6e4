"""`Criterion`, a judged metric that a user states in one sentence, and `read_criteria` for files with several of them."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import tomllib
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from ragstone.errors import ConfigurationError
from ragstone.judges import Judge, Prompt, ask_number
from ragstone.metrics._base import MetricBase
from ragstone.metrics._card import WorkedExample
from ragstone.metrics._history import question_fields
from ragstone.metrics._prompts import hash_tasks
from ragstone.metrics._rated import make_rated_score
from ragstone.schema import Sample, Score

_CONSTRUCT: Final = "criterion"
_FIELDS: Final = ("query", "contexts", "response", "reference", "sub_questions")
"""Fields that a criterion may need, in the order of the prompt, which starts as the prompts of CCRS do."""
_EXAMPLE: Final[Mapping[str, Any]] = {
    "query": "How tall is the lighthouse?",
    "contexts": ["The lighthouse of Northport is 31 meters tall.", "Ferries leave at noon."],
    "response": "31 meters, and it was built in 1890.",
    "reference": "31 meters",
    "sub_questions": ["How tall is the lighthouse?"],
}
_MAX_CHARS: Final = 2000
"""Maximum length of the text of a criterion."""
_NAME: Final = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
_MAX_NAME: Final = 80
_MAX_SLUG: Final = 40
_MAX_TITLE: Final = 60
_SCALES: Final = (
    "'yes/no', '0-100', or at least two labels from the lowest to the highest, such as ('poor', 'fair', 'good')"
)
_KEYS: Final = ("text", "needs", "scale", "name", "direction")

Scale = Literal["yes/no", "0-100"] | Sequence[str]


class Criterion(MetricBase):
    """A judged metric that is stated in one sentence.

    The judge sees the fields in `needs`, as untrusted text in tagged blocks, and then the criterion. The value is
    between 0 and 1. A reply between two levels counts as it is, and score modes of the judge apply ("expected",
    "sampled").

    Args:
        text: The question or rule, as one sentence for the judge: "Does the answer name the version it applies to?"
        needs: Fields of the sample that the judge sees, at least one of "query", "contexts", "response", "reference"
            and "sub_questions". If one of them is missing, the criterion is not applicable. An empty response is shown.
        scale: "yes/no" (1 or 0), "0-100" (divided by 100), or labels from the lowest to the highest. Labels are ordered
            and equally spaced: ("poor", "fair", "good") are 0, 0.5 and 1.
        name: Name of the metric: lower-case letters, digits and underscores, with dots between parts. Default:
            "criterion." and the beginning of the text.
        direction: Whether higher or lower values are better.

    Raises:
        ConfigurationError: If an argument is invalid. The message names it.

    Examples:
        ```python
        version = Criterion("Does the answer name the version it applies to?", needs=("query", "response"))
        evaluate("samples.jsonl", ["ccrs", version], judge="http://localhost:8000/v1")
        ```
    """

    group = "criterion"
    source = "user-defined criterion"
    judge_calls = 1

    def __init__(
        self,
        text: str,
        *,
        needs: Sequence[str],
        scale: Scale = "yes/no",
        name: str | None = None,
        direction: Literal["higher", "lower"] = "higher",
    ) -> None:
        self.text = _read_text(text)
        self.needs = _read_needs(needs)
        self.scale = _read_scale(scale)
        self.name = _derive_name(self.text) if name is None else _read_name(name)
        self.direction = direction
        first_line = " ".join(self.text.split())
        self.title = first_line if len(first_line) <= _MAX_TITLE else f"{first_line[: _MAX_TITLE - 1].rstrip()}…"
        self.description = self.text
        self._low, self._high = _range_of(self.scale)
        self.task = _write_task(self.text, self.scale)
        self.formula = f"judge({', '.join(self.needs)})" + (
            "" if self.scale == "yes/no" else " / 100" if self.scale == "0-100" else f", {_describe_labels(self.scale)}"
        )
        self.advice = (
            f"{'Low' if direction == 'higher' else 'High'} means that the criterion is "
            f"{'not met' if direction == 'higher' else 'met'}. Next: Read the worst answers, with reasons (--reasons 20)."
        )
        self.example = self._make_example()

    def __repr__(self) -> str:
        return f"Criterion({self.text!r}, needs={self.needs!r}, scale={self.scale!r}, name={self.name!r})"

    @cached_property
    def prompt_hash(self) -> str | None:
        """Hash of the task text and of the fields that the judge sees."""
        return hash_tasks((_CONSTRUCT, self.task, *self.needs))

    async def compute(self, sample: Sample, judge: Judge) -> Score:
        """Score `sample` between 0 and 1."""
        fields: dict[str, str | tuple[str, ...]] = {}
        for name in self.needs:
            fields |= question_fields(sample) if name == "query" else {name: _shown(sample, name)}
        reply = await ask_number(
            judge, Prompt(construct=_CONSTRUCT, task=self.task, fields=fields), low=self._low, high=self._high
        )
        above, span = reply.value - self._low, self._high - self._low
        labels = _labels_of(self.scale)
        details = {} if labels is None else {"label": labels[int(above + 0.5)]}
        return make_rated_score(
            self, sample, above / span, reply, offset=-self._low / span, factor=1 / span, details=details
        )

    def _make_example(self) -> WorkedExample:
        labels = _labels_of(self.scale)
        row: dict[str, Any] = {field: _EXAMPLE[field] for field in self.needs}
        if labels is None:
            return WorkedExample(
                row=row, replies={_CONSTRUCT: 80}, value=0.8, steps="The judge rates 80 of 100: 80 / 100 = 0.8."
            )
        value = (self._high - self._low - 1) / (self._high - self._low)
        steps = (
            f"The judge replies {self._high - 1} ({labels[-2]}), on the scale from {self._low} to {self._high}: "
            f"({self._high - 1} - {self._low}) / ({self._high} - {self._low}) = {value:.4g}."
        )
        return WorkedExample(row=row, replies={_CONSTRUCT: self._high - 1}, value=value, steps=steps)


def read_criteria(path: str | os.PathLike[str]) -> tuple[Criterion, ...]:
    """Read criteria from a TOML file with one table `[[criterion]]` for each.

    The keys of a table are the arguments of `Criterion`.

    Examples:
        ```toml
        [[criterion]]
        text = "Does the answer name the version it applies to?"
        needs = ["query", "response"]
        scale = ["poor", "fair", "good"]
        ```
    """
    file = os.fspath(path)
    try:
        content = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"the file of criteria {file!r} cannot be read: {error}") from None
    tables = content.get("criterion")
    if content.keys() - {"criterion"} or not isinstance(tables, list) or not tables:
        raise ConfigurationError(
            f"{file!r} must contain one table [[criterion]] for each criterion and nothing else, got the keys "
            f'{sorted(content)}. Example: [[criterion]] with text = "...", needs = ["response"], scale = "yes/no"'
        )
    criteria: dict[str, Criterion] = {}
    for number, table in enumerate(tables, start=1):
        try:
            criterion = _read_table(table, criteria.keys())
        except ConfigurationError as error:
            raise ConfigurationError(f"{file!r}, criterion {number}: {error}") from None
        criteria[criterion.name] = criterion
    return tuple(criteria.values())


def _read_table(table: object, names: Collection[str]) -> Criterion:
    if not isinstance(table, dict):
        raise ConfigurationError(f"expected a table with the keys {', '.join(_KEYS)}, got {table!r}")
    if unknown := sorted(table.keys() - set(_KEYS)):
        raise ConfigurationError(f"unknown key {unknown[0]!r}. Keys: {', '.join(_KEYS)}")
    if missing := [key for key in ("text", "needs") if key not in table]:
        raise ConfigurationError(f"the key {missing[0]!r} is missing. Required: text and needs")
    criterion = Criterion(table["text"], **{key: value for key, value in table.items() if key != "text"})
    if criterion.name in names:
        raise ConfigurationError(
            f'the name {criterion.name!r} is already in use. Give each criterion a unique name (name = "...")'
        )
    return criterion


def _read_text(text: str) -> str:
    if not text.strip():
        raise ConfigurationError(
            f"the text of a criterion must be a sentence for the judge, got {text!r}. Example: "
            "'Does the answer name the version it applies to?'"
        )
    if len(text) > _MAX_CHARS:
        raise ConfigurationError(
            f"the text of a criterion has {len(text)} characters, and the maximum is {_MAX_CHARS}. Shorten it, or "
            "write a metric of your own (MetricBase)"
        )
    if not _is_clean(text.replace("\n", " ").replace("\t", " ")):
        raise ConfigurationError(
            f"the text of a criterion contains control or invisible characters: {text!r}. Remove them, because the "
            "judge receives the text unchanged"
        )
    return text.strip()


def _is_clean(text: str) -> bool:
    """Return whether a text contains only characters that a person sees, and spaces of any width."""
    return all(letter.isprintable() or unicodedata.category(letter) == "Zs" for letter in text)


def _read_needs(needs: object) -> tuple[str, ...]:
    listed: list[Any] = [needs] if isinstance(needs, str) else list(needs) if isinstance(needs, Sequence) else []
    if not listed:
        raise ConfigurationError(
            f"needs of a criterion must name at least one field that the judge sees, got {needs!r}. Fields: "
            f"{', '.join(_FIELDS)}. Example: needs=('query', 'response')"
        )
    for need in listed:
        if need not in _FIELDS:
            close = difflib.get_close_matches(str(need), _FIELDS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ConfigurationError(
                f"{need!r} in needs is not a field that a judge can see.{hint} Fields: {', '.join(_FIELDS)}"
            )
    return tuple(field for field in _FIELDS if field in listed)


def _read_scale(scale: object) -> Literal["yes/no", "0-100"] | tuple[str, ...]:
    if scale == "yes/no":
        return "yes/no"
    if scale == "0-100":
        return "0-100"
    if isinstance(scale, str) or not isinstance(scale, Sequence) or len(scale) < 2:
        raise ConfigurationError(f"scale of a criterion must be {_SCALES}, got {scale!r}")
    labels = [label.strip() if isinstance(label, str) and _is_clean(label) else "" for label in scale]
    if not all(labels):
        raise ConfigurationError(f"labels of a scale must be texts of one line that are not empty, got {scale!r}")
    if repeated := [label for n, label in enumerate(labels) if label.casefold() in map(str.casefold, labels[:n])]:
        raise ConfigurationError(f"the label {repeated[0]!r} occurs twice in {scale!r}. Labels must be different")
    return tuple(labels)


def _read_name(name: object) -> str:
    if not isinstance(name, str) or len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not a valid name of a metric. Use lower-case letters, digits and underscores, with dots "
            f"between parts, and at most {_MAX_NAME} characters, such as 'acme.names_version'"
        )
    return name


def _derive_name(text: str) -> str:
    """Derive a name from the beginning of a text. A hash follows if the name does not contain the whole text."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    words = re.findall(r"[a-z0-9]+", "".join(letter for letter in plain if not unicodedata.combining(letter)))
    kept: list[str] = []
    for word in words:
        if len("_".join([*kept, word])) > _MAX_SLUG:
            break
        kept.append(word)
    if len(kept) < len(words) or any(letter.isalpha() and not letter.isascii() for letter in plain) or not kept:
        kept.append(hashlib.sha256(text.encode(errors="replace")).hexdigest()[:6])
    return f"criterion.{'_'.join(kept)}"


def _labels_of(scale: Literal["yes/no", "0-100"] | tuple[str, ...]) -> tuple[str, ...] | None:
    if isinstance(scale, tuple):
        return scale
    return ("no", "yes") if scale == "yes/no" else None


def _range_of(scale: Literal["yes/no", "0-100"] | tuple[str, ...]) -> tuple[int, int]:
    """Return the smallest and the largest number that the judge may reply with."""
    if isinstance(scale, tuple):
        return 1, len(scale)
    return (0, 1) if scale == "yes/no" else (0, 100)


def _describe_labels(labels: Sequence[str]) -> str:
    return ", ".join(f"{label} = {n / (len(labels) - 1):.3g}" for n, label in enumerate(labels))


def _write_task(text: str, scale: Literal["yes/no", "0-100"] | tuple[str, ...]) -> str:
    if scale == "yes/no":
        levels = "1: yes.\n0: no, or the material does not show it."
    elif scale == "0-100":
        levels = "100: completely.\n50: about half.\n0: not at all, or the material does not show it."
    else:
        levels = "The levels, from the lowest to the highest:\n"
        levels += "\n".join(f"{number}: {label}" for number, label in enumerate(scale, start=1))
    return (
        f"Your assignment: assess the material by this criterion alone.\n{text}\n{levels}\n"
        "Use only the material, not what you know about its subject."
    )


def _shown(sample: Sample, name: str) -> str | tuple[str, ...]:
    value = getattr(sample, name)
    if name == "contexts":
        return tuple(passage.text for passage in value)
    return value if isinstance(value, str) else tuple(part for part in value if part.strip())
