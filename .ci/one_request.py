"""Count what runs for one captured request with five outcomes, from the request block to the sink, and print it as JSON.

The request is the second one of a worker, so that imports and the opening of the store are not counted. The worker does not
poll. It takes a turn only if something has happened, so that the numbers do not depend on time.
`--list` also prints the functions. Set `PYTHONHASHSEED`: the order of a set decides what `isinstance` of a Protocol reads.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import ragstone
from ragstone.judges import JsonReply, JudgeIdentity, NumberReply, TextReply
from ragstone.worker import ScoringSetup, Worker, _times

HOME = f"{Path(ragstone.__file__).parent}/"
IS_FUNCTION = 1  # CO_OPTIMIZED, which the bodies of modules and classes do not have
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
JSON_READERS = {"from_json", "SchemaValidator.validate_json"}


class FixedJudge:
    """A judge that always replies with 50."""

    identity = JudgeIdentity(name="fixed", hash="fixed")

    async def ask_number(self, prompt: object, *, low: float = 0, high: float = 100) -> NumberReply:  # noqa: ARG002
        """Reply with 50."""
        return NumberReply(value=50.0, raw="50", method="single_reply")

    async def ask_text(self, prompt: object, *, max_tokens: int = 512) -> TextReply:
        """Raise: no metric of the request asks for text."""
        raise NotImplementedError

    async def ask_json(self, prompt: object, schema: object, *, max_tokens: int = 1024) -> JsonReply[Any]:
        """Raise: no metric of the request asks for JSON."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Do nothing."""


class Recorder:
    """Counts of what runs while `active`."""

    def __init__(self) -> None:
        self.active = False
        self.functions: set[CodeType] = set()
        self.counts: Counter[str] = Counter()

    def record_call(self, frame: FrameType, event: str, called: Any) -> None:
        """Count a call, as a function of `sys.setprofile`."""
        if not self.active:
            return
        code = frame.f_code
        if event == "c_call":
            self.counts["json_parses"] += getattr(called, "__qualname__", "") in JSON_READERS
        elif event == "call" and code.co_filename.startswith(HOME):
            if code.co_flags & IS_FUNCTION and code.co_name not in COMPREHENSIONS:
                self.functions.add(code)
        elif event == "call" and code.co_name == "loads" and code.co_filename == json.__file__:
            self.counts["json_parses"] += 1

    def connect(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        """Open a database, and count its transactions."""
        connection = _connect(*arguments, **options)
        connection.set_trace_callback(lambda text: self.record_statement(text, is_alone=not connection.in_transaction))
        return connection

    def record_statement(self, text: str, *, is_alone: bool) -> None:
        """Count a transaction, or a statement that is not part of one."""
        words = text.lstrip().upper().split(None, 2)
        begins = words[0] == "BEGIN"
        if self.active and (begins or (is_alone and words[0] in ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE"))):
            reads = words[0] in ("SELECT", "WITH") or (begins and words[1:2] not in (["IMMEDIATE"], ["EXCLUSIVE"]))
            self.counts["read_transactions" if reads else "write_transactions"] += 1


_connect = sqlite3.connect


async def count(folder: Path, recorder: Recorder) -> None:
    """Handle two requests, and count the second."""
    sink, store = folder / "outcomes.jsonl", str(folder / "store.db")
    setup = ScoringSetup("ccrs", judge=FixedJudge(), sinks=[f"jsonl:{sink}"])
    worker = Worker(store, setup)
    monitor = ragstone.Monitor(store=store, judge=FixedJudge(), scoring="none", durability="sync")
    async with setup:
        for number in (1, 2):
            recorder.active = number == 2
            with monitor.request("How tall is the lighthouse?", reference="31 meters.") as request:
                request.found(["The lighthouse is 31 meters tall."])
                request.answer("31 meters.")
            if number == 1:
                running = asyncio.create_task(worker.run())
            else:
                worker.wake()
            while not (sink.exists() and sink.read_text().count("\n") == 5 * number and worker.idle):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        recorder.active = False
        worker.stop()
        await running
    monitor.close()


def main() -> None:
    """Print the numbers."""
    recorder = Recorder()
    vars(_times).update(POLL_MIN_S=3600.0, POLL_MAX_S=3600.0)
    sqlite3.connect = recorder.connect
    threading.setprofile(recorder.record_call)
    sys.setprofile(recorder.record_call)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(count(Path(folder), recorder))
    sys.setprofile(None)
    files = {code.co_filename for code in recorder.functions}
    if "--list" in sys.argv:
        places = {f"{code.co_filename.removeprefix(HOME)}:{code.co_qualname}" for code in recorder.functions}
        print(*sorted(places), sep="\n")
    numbers = {"functions": len(recorder.functions), "files": len(files), **dict(sorted(recorder.counts.items()))}
    print(json.dumps(numbers))


if __name__ == "__main__":
    main()
