"""Files of gates: JUnit XML for CI servers, and Markdown for summaries of jobs."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal
from xml.etree import ElementTree as ET

from ragstone._util.files import write_output
from ragstone.errors import ConfigurationError

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCase:
    """One metric of a gate."""

    metric: str
    system: str
    """Name of the system, or an empty string if there is only one."""
    state: Literal["passed", "failed", "error"]
    """ "error": it cannot be tested."""
    value: str
    """What was measured."""
    verdict: str


def check_gate_file(path: str | os.PathLike[str], suffix: str) -> Path:
    """Check that a file can be written, before anything is computed.

    Raises:
        ConfigurationError: If the name does not end in the suffix, or the directory does not exist.
    """
    file = Path(path)
    if file.suffix.lower() != suffix:
        raise ConfigurationError(f"the file must end in {suffix}, got {str(file)!r}")
    if not file.absolute().parent.is_dir() or file.is_dir():
        raise ConfigurationError(f"cannot write {str(file)!r}: give the path of a file in an existing directory")
    return file


def write_junit(path: str | os.PathLike[str], cases: Sequence[GateCase], *, name: str, details: str) -> None:
    """Write a gate as JUnit XML: one test case for each metric and system. Failed ones contain `details`."""
    states = [case.state for case in cases]
    counts = {"tests": len(cases), "failures": states.count("failed"), "errors": states.count("error")}
    suite = ET.Element("testsuite", {"name": _xml(name)} | {key: str(n) for key, n in counts.items()})
    for case in cases:
        group = f"{name}.{case.system}" if case.system else name
        item = ET.SubElement(suite, "testcase", {"classname": _xml(group), "name": _xml(case.metric)})
        if case.state == "passed":
            ET.SubElement(item, "system-out").text = _xml(f"{case.value}: {case.verdict}")
        else:
            kind = "failure" if case.state == "failed" else "error"
            ET.SubElement(item, kind, {"message": _xml(f"{case.value}: {case.verdict}")}).text = _xml(details)
    root = ET.Element("testsuites", {key: str(n) for key, n in counts.items()})
    root.append(suite)
    try:
        text = ET.tostring(root, encoding="unicode")
        write_output(path, f"<?xml version='1.0' encoding='utf-8'?>\n{text}")
    except OSError as error:
        raise ConfigurationError(f"cannot write {os.fspath(path)!r}: {error.strerror}") from error


class GateCheck(ABC):
    """The result of a gate: whether all metrics pass, as a table, and as files."""

    __slots__ = ()
    suite: ClassVar[str]
    """Name of the gate in JUnit XML."""

    @abstractmethod
    def cases(self) -> list[GateCase]:
        """Return the metrics of the gate."""

    @abstractmethod
    def head(self) -> str:
        """Return the first line of the table."""

    @property
    def ok(self) -> bool:
        """Whether all metrics pass."""
        return all(case.state == "passed" for case in self.cases())

    def write_junit(self, path: str | os.PathLike[str]) -> None:
        """Write the result as JUnit XML, one test case for each metric and system.

        Raises:
            ConfigurationError: If the file cannot be written.
        """
        write_junit(path, self.cases(), name=self.suite, details=str(self))

    def to_markdown(self) -> str:
        """Return the result as a Markdown table, for summaries of CI jobs."""
        from ragstone.views import escape_markdown

        return "\n".join([f"### {escape_markdown(self.head())}", "", *_table(self.cases()), ""])


def _table(cases: Sequence[GateCase]) -> list[str]:
    """Format a gate as the lines of a Markdown table, failed metrics first."""
    from ragstone.views import code_in_markdown, escape_markdown

    rows = sorted(cases, key=lambda case: case.state == "passed")
    several = any(case.system for case in rows)
    head = ["result", "metric", *(["system"] if several else []), "measured", "verdict"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for case in rows:
        mark = "passed" if case.state == "passed" else "**FAILED**"
        system = [escape_markdown(case.system)] if several else []
        texts = [
            mark,
            code_in_markdown(case.metric),
            *system,
            escape_markdown(case.value),
            escape_markdown(case.verdict),
        ]
        lines.append(f"| {' | '.join(texts)} |")
    return lines


def _xml(text: str) -> str:
    return _NOT_XML.sub(" ", text)
