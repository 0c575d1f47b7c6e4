"""`ragstone lab validate-metrics` and `ragstone lab topicality` from the command line, on outcomes that `ragstone evaluate` wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import Done, run_command


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Done]:
    """Run `ragstone` in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return run_command


TOPICS = ("gold", "silver", "copper", "iron", "tin", "lead", "zinc", "nickel", "cobalt", "chrome", "quartz", "slate")


@pytest.fixture
def outcomes(run: Callable[..., Done]) -> Callable[..., str]:
    """Evaluate answers of a made-up application, and return the name of the file of outcomes."""

    def evaluated(name: str, answer: Callable[[str], str]) -> str:
        rows = [
            {
                "id": topic,
                "query": f"Which streak does {topic} leave on the stone?",
                "contexts": [f"On the stone {topic} leaves a bright streak.", "Rain fell on the harbour."],
                "response": answer(topic),
                "reference": f"{topic} leaves a bright streak on the stone",
            }
            for topic in TOPICS
        ]
        Path(f"{name}.rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        done = run("evaluate", f"{name}.rows.jsonl", "--judge", "lexical", "-o", f"{name}.jsonl")
        assert 0 == done.returncode, done.stderr
        return f"{name}.jsonl"

    return evaluated


def good(topic: str) -> str:
    """An answer from the passage; half of them short."""
    return f"On the stone {topic} leaves a bright streak." if topic < "m" else f"A bright streak, {topic}."


def poor(topic: str) -> str:
    """An answer about something else; some say nothing."""
    return "" if topic < "d" else f"Rain fell on the harbour when {topic} was asked for."


def test_meta_of_two_systems_with_labels_and_repeats(run: Callable[..., Done], outcomes: Callable[..., str]) -> None:
    """Every part of the report is there, with counts; JSON holds the same."""
    a, b = outcomes("a", good), outcomes("b", poor)
    labels = [
        {"id": topic, "system": system, "label": label}
        for system, label in (("a", "yes"), ("new", "no"))
        for topic in TOPICS[:8]
    ]
    Path("labels.json").write_text(json.dumps(labels), encoding="utf-8")
    command = (
        "lab", "validate-metrics", a, f"new={b}", "--labels", "labels.json", "--repeat", f"a={a}", "--set", "analysis.n_resamples=200",
        "--set", "analysis.n_permutations=500", "--metrics", "ccrs.qr,ccrs.ac",
    )  # fmt: skip
    done = run(*command)
    assert 0 == done.returncode, done.stderr
    for part in (
        "12 / 0 / 0", "ccrs.qr and ccrs.ac", "mean of 2 systems", "discriminative power", "significant pairs", "pairs that flip",
        "12 samples, 24 scores", "agreement with people", "prediction-powered", "which is not a judge",
    ):  # fmt: skip
        assert part in done.stdout
    found = json.loads(run(*command, "--json").stdout)
    assert ["a", "new"] == found["systems"]
    assert [4, 2, 3, 2, 4] == [
        len(found[key]) for key in ("distributions", "powers", "correlations", "repeatability", "labels")
    ]
    assert all(f["rate"]["pairs"]["value"] == 0 for f in found["repeatability"])
    assert all(label["n"] == 8 and label["n_unlabeled"] == 4 for label in found["labels"])


def test_meta_of_one_file(run: Callable[..., Done], outcomes: Callable[..., str]) -> None:
    """Distributions and correlations are all that one system tells."""
    done = run("lab", "validate-metrics", outcomes("a", good))
    assert 0 == done.returncode, done.stderr
    assert "at ceiling [95% CI]" in done.stdout
    assert "Kendall" in done.stdout
    assert "discriminative power" not in done.stdout
    assert "agreement with people" not in done.stdout


def test_label_options(run: Callable[..., Done], outcomes: Callable[..., str]) -> None:
    """A CSV with grades from 1 to 5 in a column of another name."""
    a = outcomes("a", good)
    lines = [f"{topic},{1 + i % 5}" for i, topic in enumerate(TOPICS[:9])]
    Path("grades.csv").write_text("\n".join(["id,verdict", *lines]) + "\n", encoding="utf-8")
    done = run(
        "lab", "validate-metrics", a, "--metrics", "ccrs.qr", "--labels", "grades.csv", "--label", "verdict", "--set", "research.label_range=1,5",
        "--json",
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    (found,) = json.loads(done.stdout)["labels"]
    assert [0, 0.25, 0.5, 0.75, 1] == found["categories"]
    assert 9 == found["n"]


def test_topicality(run: Callable[..., Done], outcomes: Callable[..., str]) -> None:
    """The answers of the domain are ahead, and the table says what is error and what is spread."""
    done = run(
        "lab", "topicality", outcomes("inside", good), outcomes("outside", poor), "--set", "analysis.n_resamples=500"
    )
    assert 0 == done.returncode, done.stderr
    for part in (
        "SE of the mean",
        "SD of scores",
        "first set scores above",
        "serves in-domain queries",
    ):
        assert part in done.stdout
    found = json.loads(
        run("lab", "topicality", "inside.jsonl", "outside.jsonl", "--metrics", "ccrs.ir", "--json").stdout
    )
    assert "in" == found["metrics"][0]["advantage"]
    assert found["verdict"].startswith("the repository serves")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lab", "validate-metrics", "none.jsonl"), "none.jsonl"),
        (("lab", "validate-metrics", "a.jsonl", "--metrics", "vera"), "'vera'"),
        (("lab", "validate-metrics", "a.jsonl", "--set", "research.label_range=1-5"), "LOW,HIGH"),
        (("lab", "validate-metrics", "a.jsonl", "--labels", "none.csv"), "none.csv"),
        (("lab", "validate-metrics", "a.jsonl", "--repeat", "b=a.jsonl", "--repeat", "a.jsonl"), "NAME=FILE for each"),
        (("lab", "validate-metrics", "a.jsonl", "--set", "analysis.confidence_level=2"), "level"),
        (("lab", "topicality", "a.jsonl", "none.jsonl"), "none.jsonl"),
        (("lab", "topicality", "a.jsonl", "a.jsonl", "--set", "analysis.confidence_level=0"), "level"),
        (("lab", "topicality", "a.jsonl", "rows.jsonl"), "is not an outcome"),
    ],
)
def test_what_cannot_work(
    run: Callable[..., Done], outcomes: Callable[..., str], arguments: tuple[str, ...], message: str
) -> None:
    """Exit code 2, and a message that says what to change."""
    outcomes("a", good)
    Path("rows.jsonl").write_text('{"query": "Why?"}\n', encoding="utf-8")
    done = run(*arguments)
    assert 2 == done.returncode, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
