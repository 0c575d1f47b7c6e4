"""Commands on full disks and read-only media: one line that says what to do, the exit code of the infrastructure, no traceback.

The disks are real ones, in a namespace of mounts that ends with the test. Without the permission for one, the tests are skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ragstone.replay import replay_traces

RAGSTONE = str(Path(sys.executable).with_name("ragstone"))
USAGE, INFRASTRUCTURE = 2, 3


def in_namespace(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell script as the owner of a new namespace."""
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", f"set -e; {script}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scored store, its rows, and two mount points."""
    folder = tmp_path_factory.mktemp("disks")
    (folder / "fixed").mkdir()
    (folder / "full").mkdir()
    try:
        is_possible = in_namespace("mount -t tmpfs tmpfs full; mount --bind fixed fixed", folder).returncode == 0
    except FileNotFoundError:
        is_possible = False
    if not is_possible:
        pytest.skip("this user may not mount file systems")
    rows = [
        {"id": f"t{n}", "query": f"How far is {n}?", "response": f"{n} km " * 30, "reference": f"{n} km"}
        for n in range(60)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    replay_traces([str(folder / "rows.jsonl")], ["token_f1"], store=folder / "good.db")
    (folder / "fixed" / "store.db").write_bytes((folder / "good.db").read_bytes())
    return folder


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("status fixed/store.db", 0),
        ("traces fixed/store.db --worst 2", 0),
        ("report fixed/store.db", 0),
        ("store verify fixed/store.db", 0),
        ("store export fixed/store.db out.jsonl", 0),
        ("store prune fixed/store.db --bodies-older-than 1d", INFRASTRUCTURE),
        ("report good.db --output fixed/report.html", INFRASTRUCTURE),
        ("store export good.db fixed/out.jsonl", INFRASTRUCTURE),
        ("evaluate rows.jsonl --metrics token_f1 --output fixed/out.jsonl", INFRASTRUCTURE),
    ],
)
def test_a_store_on_read_only_media_can_be_looked_at(folder: Path, arguments: str, code: int):
    """SQLite would create two files beside it. What writes says that it cannot."""
    done = in_namespace(f"mount --bind fixed fixed; mount -o remount,ro,bind fixed; {RAGSTONE} {arguments}", folder)
    assert code == done.returncode, done.stderr
    assert "Traceback" not in done.stderr
    if code:
        assert "ead-only" in done.stderr.splitlines()[-1], done.stderr


def test_a_log_on_read_only_media_is_not_ignored(folder: Path):
    """The newest requests are in it, and SQLite cannot read it there."""
    log = folder / "fixed" / "store.db-wal"
    log.write_bytes(b"requests")
    try:
        done = in_namespace(
            f"mount --bind fixed fixed; mount -o remount,ro,bind fixed; {RAGSTONE} status fixed/store.db", folder
        )
    finally:
        log.unlink()
    assert INFRASTRUCTURE == done.returncode
    assert "with the one that ends in -wal" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        "evaluate rows.jsonl --metrics token_f1 --output full/out.jsonl",
        "report good.db --output full/report.html",
        "store export good.db full/out.jsonl",
        "store backup good.db full/backup.db",
        "replay rows.jsonl --metrics token_f1 --store full/new.db",
    ],
)
def test_a_full_disk_is_said(folder: Path, arguments: str):
    """And nothing that looks like a result is left behind."""
    done = in_namespace(
        "mount -t tmpfs -o size=64k tmpfs full; dd if=/dev/zero of=full/other bs=1k count=64 2>/dev/null; "
        f"code=0; {RAGSTONE} {arguments} || code=$?; find full -size +0 >&2; exit $code",
        folder,
    )
    assert INFRASTRUCTURE == done.returncode, done.stderr
    assert "No space left on device" in done.stderr or "disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("full")] in (
        ["full", "full/other"],
        ["full/other"],
    )


def test_labels_on_a_full_disk_are_all_refused(folder: Path):
    """While a worker owns the store, labels wait in a file next to it. What does not fit leaves no part of a line there."""
    labels = [{"trace_id": f"t{n}", "label": 1, "author": "ann" * 40} for n in range(60)]
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labels))
    (folder / "first.jsonl").write_text(json.dumps(labels[0]) + "\n")
    (folder / "own.py").write_text(
        "import pathlib, sys\n"
        "from ragstone.store import SqliteStore\n"
        "with SqliteStore.open(pathlib.Path(sys.argv[1]), mode='own'):\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    add = f"code=0; {RAGSTONE} labels add full/store.db"
    done = in_namespace(
        "mount -t tmpfs -o size=8m tmpfs full; cp good.db full/store.db; mkfifo full/open full/end; "
        f"{sys.executable} own.py full/store.db <full/end >full/open & exec 3>full/end; read line <full/open; "
        f"{add} first.jsonl || code=$?; wc -l <full/store.db.labels; dd if=/dev/zero of=full/other bs=4k 2>/dev/null || true; "
        f"{add} labels.jsonl || code=$?; echo $code; wc -l <full/store.db.labels; rm full/other; "
        f"{add} labels.jsonl || code=$?; echo $code; exec 3>&-; wait; "
        f"{add} first.jsonl || code=$?; {RAGSTONE} store verify full/store.db --json",
        folder,
    )
    assert "Free space on this disk, and save the labels again" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    numbers = [int(line) for line in done.stdout.splitlines() if line.strip().isdigit()]
    assert numbers == [1, INFRASTRUCTURE, 1, 0]
    found = json.loads(done.stdout[done.stdout.rindex("\n{") :])
    assert (True, 60) == (found["ok"], found["checked"]["labels"])
