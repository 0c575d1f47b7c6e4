"""Train the tiny judge and the tiny reader at the same time: `python train_tiny_models.py JUDGE_FOLDER READER_FOLDER`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main(folders: list[str]) -> int:
    """Train each in a process of its own; return 0 if both succeed."""
    trainers = [Path(__file__).with_name(f"train_tiny_{name}.py") for name in ("judge", "reader")]
    running = [
        subprocess.Popen([sys.executable, trainer, folder]) for trainer, folder in zip(trainers, folders, strict=True)
    ]
    codes = [process.wait() for process in running]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
