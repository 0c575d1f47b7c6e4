"""Stores by name: files and databases, shown without passwords; and the alert rules that the command line prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import run_command
from ragstone.errors import ConfigurationError
from ragstone.judges.lexical import LexicalJudge
from ragstone.monitor import Monitor
from ragstone.store import describe_store, is_database_url, resolve_store
from ragstone.worker import ScoringSetup, Worker, broker_spool_directory, spool_directory


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("some/file.db", "some/file.db"),
        ("postgresql://u:secret@h:5433/d?password=secret", "postgresql://h:5433/d"),
        ("postgresql://u@h:5433/d?password=secret", "postgresql://u@h:5433/d"),
        ("postgres://u:se@cret@h/d", "postgresql://h/d"),
        ("postgres://u@se@h/d", "postgresql://h/d"),
        ("postgresql://u:se/cr?et@h/d", "postgresql://h/d"),
        ("postgresql:///d", "postgresql:///d"),
        ("postgresql://h\x1b[2J/d", "postgresql://h?[2J/d"),
    ],
)
def test_a_store_is_shown_without_a_password(store: str, words: str):
    """Wherever in the URL it is. The user is shown if no password can be part of it, so that printed commands work."""
    assert words == describe_store(store)


def test_a_file_is_the_same_from_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A path is made absolute; a URL is left as it is."""
    monkeypatch.chdir(tmp_path)

    assert str(tmp_path / "s.db") == resolve_store("s.db")
    assert "postgresql://h/d" == resolve_store("postgresql://h/d")
    assert not is_database_url(tmp_path / "postgresql:")


def test_a_database_has_a_spool_without_its_password(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Application and worker find the same folder, whatever their passwords."""
    monkeypatch.delenv("RAGSTONE_SPOOL", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    spools = {spool_directory(f"postgresql://{who}@h:5433/d") for who in ("app:secret", "worker:other")}

    assert {tmp_path / "ragstone" / "h_5433_d.spool"} == spools


def test_two_databases_cannot_share_a_spool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Otherwise the worker of one stores the requests of the other. The error says both ways out."""
    monkeypatch.setenv("RAGSTONE_SPOOL", str(tmp_path / "spool"))
    setup = ScoringSetup("ccrs.qr", judge=LexicalJudge())
    Monitor(store="postgresql://app:secret@h/one", judge="lexical", scoring="none").close()
    Worker("postgresql://worker:other@h:5432/one", setup)

    for make in (
        lambda: Worker("postgresql://h/two", setup),
        lambda: Monitor(store="postgresql://h/two", judge="lexical", scoring="none"),
    ):
        with pytest.raises(
            ConfigurationError, match="belongs to the database 'h:5432/one', not to 'h:5432/two'"
        ) as info:
            make()
        assert "secret" not in str(info.value)
        assert "Set RAGSTONE_SPOOL to another directory" in str(info.value)
    file = tmp_path / "spool" / "databases"
    assert 0o600 == file.stat().st_mode & 0o777
    with file.open("a") as names:
        names.write("h:5432/two\n")
    Worker("postgresql://h/two", setup)
    assert [file] == list(file.parent.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "belongs to the database 'h:5432/one', not to 'h:5432/two'"),
        (("--set", "redaction.ids=hash"), "set RAGSTONE_ID_KEY"),
        (("--retriever-tool", ""), "expected tool names"),
    ],
)
def test_a_receiver_that_refuses_to_start_leaves_no_file(tmp_path: Path, options: tuple[str, ...], message: str):
    """The buffer of its spans would be in the directory of another database."""
    (tmp_path / "databases").write_text("h:5432/one\n")

    done = run_command(
        "ingest",
        "postgresql://h/two",
        "--metrics",
        "ccrs",
        "--judge",
        "lexical",
        *options,
        RAGSTONE_SPOOL=str(tmp_path),
    )

    assert 2 == done.returncode
    assert message in done.stderr
    assert ["databases"] == [path.name for path in tmp_path.iterdir()]


def test_brokers_and_a_database_of_one_host_have_spools_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Otherwise a worker would store requests that another application of the host publishes."""
    monkeypatch.setenv("RAGSTONE_SPOOL", str(tmp_path))

    spools = [spool_directory("postgresql://h/d"), *(broker_spool_directory("h", 6379, app) for app in ("a", "b"))]

    assert [tmp_path, tmp_path / "h_6379_a.spool", tmp_path / "h_6379_b.spool"] == spools
