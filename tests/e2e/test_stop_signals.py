"""Commands that run until they are stopped end with exit code 0, whatever signal asks them to stop."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import MAIN

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize(
    ("arguments", "started", "is_background"),
    [
        (("worker", "s.db", "--judge", "lexical"), "owning s.db", False),
        (("worker", "s.db", "--judge", "lexical"), "owning s.db", True),
        (("ingest", "s.db", "--judge", "lexical", "--listen", "127.0.0.1:0"), "listening at", False),
    ],
    ids=["worker", "worker in the background", "ingest"],
)
def test_a_signal_stops_it(
    tmp_path: Path, arguments: tuple[str, ...], started: str, is_background: bool, name: str
) -> None:
    """It closes what it has open, without a traceback."""
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); " if is_background else ""
    command = [sys.executable, "-c", ignore + MAIN, *arguments, "--judge", "lexical"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            assert any(started in line for line in lines)
            process.send_signal(getattr(signal, name))
            _, rest = process.communicate(timeout=120)
        finally:
            process.kill()
        assert process.returncode == 0, rest
    assert "Traceback" not in rest
    assert not (tmp_path / "s.db-wal").exists()
