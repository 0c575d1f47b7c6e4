"""Processes of this machine: who has started them, and whether they still run."""

from __future__ import annotations

from pathlib import Path

__all__ = ["children", "is_running"]


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """The processes that a process has started, and that still run."""
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, tasks.read_text(encoding="utf-8").split())
        except OSError:
            continue  # the thread has ended meanwhile
    return [child for child in found if is_running(child)]
