"""What commands print of names, reasons and texts that come from files and from judges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragstone.cli import main
from ragstone.schema import Score

HOSTILE = "a\x1b[31mb\x9b2Jc\u202ed"


def written(path: Path, metric: str) -> str:
    """A file of six outcomes, as a hostile hand would write it."""
    scores = [Score(sample_id=f"q{i}", metric=metric, metric_version="1", method="x", value=i / 5) for i in range(6)]
    path.write_text("".join(score.model_dump_json() + "\n" for score in scores), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_names_from_a_file_do_not_reach_the_terminal_as_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    """Escapes would recolour, clear or turn around what stands there; JSON says them in its own way."""
    files = [written(tmp_path / f"{name}.jsonl", HOSTILE) for name in "ab"]
    with pytest.raises(SystemExit):
        main(["compare", *files, *options])

    out = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in out)
    if options:
        assert HOSTILE in {metric["metric"] for metric in json.loads(out)["metrics"]}


def test_errors_that_quote_a_file_do_not_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The refusal lists the metrics that are there."""
    files = [written(tmp_path / f"{name}.jsonl", HOSTILE) for name in "ab"]
    with pytest.raises(SystemExit):
        main(["compare", *files, "--metrics", "ccrs"])

    err = capsys.readouterr().err
    assert "no system has outcomes of 'ccrs'" in err
    assert all(c.isprintable() or c == "\n" for c in err)
