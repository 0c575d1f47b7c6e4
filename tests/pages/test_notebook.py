"""The notebook of `examples` is the tutorial, and runs."""

from __future__ import annotations

import os
import subprocess
import sys

from docs_pages import ROOT


def test_the_notebook_is_the_tutorial_and_runs(tmp_path):
    """In an empty directory, in a kernel of its own."""
    environment = os.environ | {
        "HOME": str(tmp_path),
        "IPYTHONDIR": str(tmp_path),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    command = [sys.executable, ROOT / ".ci" / "notebook.py", "--check"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
