"""One store has one owner and one spool, whatever name it is opened by."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragstone.errors import StoreError, StoreOwnedError
from ragstone.ingest import SharedSpanBuffer
from ragstone.store import SqliteStore, resolve_store
from ragstone.worker import spool_directory


def names(folder: Path) -> dict[str, Path]:
    """A store, and other names of it."""
    real = folder / "data" / "s.db"
    real.parent.mkdir()
    (folder / "other").symlink_to(folder / "data")
    (folder / "link.db").symlink_to(real)
    (folder / "link of a link.db").symlink_to(folder / "link.db")
    return {
        "the file": real,
        "a link": folder / "link.db",
        "a link of a link": folder / "link of a link.db",
        "a link to the folder": folder / "other" / "s.db",
        "dots": folder / "data" / ".." / "data" / "s.db",
        "a relative path": Path(os.path.relpath(real)),
    }


@pytest.mark.parametrize(
    "name", ["a link", "a link of a link", "a link to the folder", "dots", "a relative path", "the file"]
)
@pytest.mark.parametrize("exists", [True, False])
def test_all_names_have_one_owner(tmp_path, name, exists):
    """Also if the file is made under the other name."""
    paths = names(tmp_path)
    if exists:
        SqliteStore.open(paths["the file"], mode="own").close()
    with SqliteStore.open(paths[name], mode="own"):
        for other in paths.values():
            with pytest.raises(StoreOwnedError, match="is owned by this process already"):
                SqliteStore.open(other, mode="own")
            SqliteStore.open(other, mode="read").close()
    assert {"s.db", "s.db.lock"} == {file.name for file in (tmp_path / "data").iterdir()}


def test_all_names_have_one_spool(tmp_path):
    """Where captures wait, and labels."""
    paths = names(tmp_path)
    real = str(tmp_path.resolve() / "data" / "s.db")
    assert {real} == {resolve_store(path) for path in paths.values()}
    assert {Path(f"{real}.spool")} == {spool_directory(path) for path in paths.values()}


def test_a_store_with_hard_links_is_not_written(tmp_path):
    """SQLite names its log after the name that it is opened by."""
    SqliteStore.open(tmp_path / "s.db", mode="own").close()
    os.link(tmp_path / "s.db", tmp_path / "t.db")
    for name in ("s.db", "t.db"):
        with pytest.raises(StoreError, match=r"has 2 names \(hard links\).*Remove the other names"):
            SqliteStore.open(tmp_path / name, mode="own")
        SqliteStore.open(tmp_path / name, mode="read").close()
    (tmp_path / "t.db").unlink()
    SqliteStore.open(tmp_path / "s.db", mode="own").close()


def test_links_in_a_circle_are_an_error_of_the_store(tmp_path):
    """Not one of Python."""
    (tmp_path / "a.db").symlink_to(tmp_path / "b.db")
    (tmp_path / "b.db").symlink_to(tmp_path / "a.db")
    for mode in ("own", "read"):
        with pytest.raises(StoreError):
            SqliteStore.open(tmp_path / "a.db", mode=mode)  # type: ignore[arg-type]


def test_the_spans_of_a_receiver_belong_to_the_file(tmp_path):
    """Two receivers of one store must not write one buffer."""
    from ragstone.cli._ingest import _buffer_path

    paths = names(tmp_path)
    assert {tmp_path.resolve() / "data" / "s.db.spans"} == {_buffer_path(str(path)) for path in paths.values()}
    SharedSpanBuffer(_buffer_path(str(paths["a link"]))).close()
