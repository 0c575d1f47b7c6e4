"""`ragstone view --mcp`: the read commands of a store as tools of the Model Context Protocol."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any, Final

from ragstone._util.lazy import needs_extra
from ragstone._util.short_json import shorten

_PROGRAM: Final = (sys.executable, "-P", "-c", "from ragstone.cli import program; program()")
_ANSWER: Final = ("id", "cause", "cause_title", "rating", "time")
"""Fields of an answer without texts of users, documents, models or metadata."""
_SCORE: Final = ("metric", "title", "outcome", "value", "low", "high", "is_low")
_PASSAGE: Final = ("position", "marks", "label_source", "p_answer")
_REPORT: Final = (
    *("n_samples", "n_unscored", "verdict", "next", "notices", "metrics"),
    *("causes", "signals", "worst", "trend", "trial"),
)
_HIDDEN: Final = frozenset({"last_error", "stopped", "error", "example", "settings", "last_worker", "slices"})
"""Fields of `status` and `alarms` with messages of errors, paths or metadata."""
_FAILED: Final = (
    "The command failed with exit code {}. Its message can contain texts. Run it in a terminal, or add --texts"
)
_EVERYTHING: Final = "ask for fewer answers or a shorter period, or run the command with --json --full"


def serve_tools(store: str, *, texts: bool) -> None:
    """Answer the calls of one client on standard input and output, until it ends.

    The store is only read. Without `texts`, no answer contains texts of questions, answers or passages, or metadata.

    Raises:
        MissingExtraError: If the SDK is not installed.
    """
    with needs_extra("mcp", "mcp", "ragstone view --mcp"):
        from anyio import run_process
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import ToolAnnotations

    server = MCPServer(
        "ragstone", instructions="Scores of a RAG application, read only. Begin with report, then worst."
    )
    tool = server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False), structured_output=False)

    async def run(command: str, *arguments: str) -> Any:
        done = await run_process([*_PROGRAM, command, *arguments, "--json"], stdin=subprocess.DEVNULL, check=False)
        if done.returncode not in (0, 1):  # 1: a gate or an alarm
            raise ToolError(done.stderr.decode(errors="replace")[-2000:] if texts else _FAILED.format(done.returncode))
        return json.loads(done.stdout)

    def at(period: str) -> str:
        if period and (".." not in period or not re.fullmatch(r"[\w:.+-]*", period)):
            raise ToolError(f"invalid period {period!r}. Write FROM..TO, such as 2026-11-01..2026-11-08 or -7d..")
        return f"{store}@{period}" if period else store

    def written(value: Any) -> str:
        return json.dumps(shorten(value if texts else _hide(value), _EVERYTHING), default=str)

    @tool
    async def status() -> str:
        """Count the requests of the store by state, with the mean of each metric."""
        return written(await run("status", store))

    @tool
    async def report(period: str = "") -> str:
        """Say how many answers are wrong, why, and what to work on first. period: FROM..TO, such as -7d.. (all if empty)."""
        found = await run("report", at(period), "--full")
        shown = {name: found[name] for name in _REPORT} | {"worst": [*map(_answer, found["worst"])]}
        return written(found if texts else shown)

    @tool
    async def worst(n: int = 3, cause: str = "", where: str = "", period: str = "") -> str:
        """List the worst answers with scores and passages. cause: as report names it. where: topic=x and ccrs.ac<0.5."""
        options = [f"--{name}={value}" for name, value in (("cause", cause), ("where", where)) if value]
        found = await run("traces", at(period), f"--worst={n}", *options, "--full")
        return written({"answers": found if texts else [_answer(each) for each in found]})

    @tool
    async def compare(before: str, after: str) -> str:
        """Find significant differences between two periods, each FROM..TO: before -14d..-7d, after -7d.. ."""
        return written(await run("compare", f"before={at(before)}", f"after={at(after)}", "--full"))

    @tool
    async def alarms() -> str:
        """List the alarms of watched metrics, and what each watch can find."""
        return written(await run("watch", store))

    server.run("stdio")


def _hide(value: Any) -> Any:
    """Return a result whose hidden fields only say whether they have a value."""
    if isinstance(value, dict):
        return {key: "hidden" if key in _HIDDEN and each else _hide(each) for key, each in value.items()}
    return [_hide(each) for each in value] if isinstance(value, list) else value


def _answer(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without its texts."""
    return {name: answer[name] for name in _ANSWER} | {
        "scores": [{name: score[name] for name in _SCORE} for score in answer["scores"]],
        "passages": [{name: passage[name] for name in _PASSAGE} for passage in answer["passages"] or ()],
    }
