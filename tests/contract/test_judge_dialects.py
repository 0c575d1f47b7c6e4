"""Every kind of endpoint works by default: the table in `docs/how-to/judge-endpoints.md`, measured again.

To print the table: `python tests/contract/test_judge_dialects.py` with `tests/support` in `PYTHONPATH`.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import ragstone
from fake_servers import JUDGE_DIALECTS, FakeDialectServer
from ragstone.judges import OpenAICompatibleJudge
from ragstone.schema import Failure, Score

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "judge-endpoints.md"
HEADER = (
    "| endpoint | reasons first | scored | accepted calls | refused calls |",
    "|---|---|---|---|---|",
)
METRICS = ["ccrs", "udcg", "ragas"]
N_SAMPLES, N_PASSAGES = 16, 5
MOST_REFUSED = 12
KEY = "k"
"""A key that is a part of parameter names."""


def samples():
    """Rows with everything that the metrics need."""
    return [
        {
            "id": f"s{i}",
            "query": f"Where does stone {i} lie?",
            "contexts": [f"Stone {i} lies at river {j}." for j in range(N_PASSAGES)],
            "response": f"It lies at river {i % N_PASSAGES}. It is gray.",
            "reference": [f"At river {i % N_PASSAGES}."],
        }
        for i in range(N_SAMPLES)
    ]


def measured(name):
    """One row of the table, the failures, and the judge's hash."""
    with FakeDialectServer(name, api_key=KEY) as server:
        judge = OpenAICompatibleJudge(server.url, api_key=KEY)
        result = ragstone.evaluate(samples(), METRICS, judge=judge)
        n_accepted, n_refused = server.n_accepted, server.n_refused
    n_scored = sum(isinstance(outcome, Score) for outcome in result.outcomes)
    failures = [outcome.reason for outcome in result.outcomes if isinstance(outcome, Failure)]
    spoken = server.dialect
    style = f"`{spoken.reasoning}`" if (spoken.reasoning or "").startswith("reasoning") else spoken.reasoning or "no"
    cells = (spoken.title, style, f"{n_scored / len(result.outcomes):.0%}", n_accepted, n_refused)
    return f"| {' | '.join(map(str, cells))} |", failures, n_refused


@pytest.mark.parametrize("name", JUDGE_DIALECTS)
def test_the_table_in_the_docs(name):
    """Everything is scored, few requests are refused, and the docs state how many."""
    row, failures, n_refused = measured(name)
    assert [] == failures
    assert n_refused <= MOST_REFUSED
    assert row in PAGE.read_text(encoding="utf-8").splitlines()


def test_the_table_has_no_other_row():
    """A dialect that was removed is not in the docs."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index(HEADER[0])
    assert HEADER[1] == lines[start + 1]
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    assert [dialect.title for dialect in JUDGE_DIALECTS.values()] == [
        row.split(" | ")[0].removeprefix("| ") for row in rows
    ]


@pytest.mark.parametrize("name", ["anthropic", "openai-reasoning", "azure", "groq"])
def test_refusals_do_not_grow_with_the_samples(name):
    """Four times the samples at once, and no request more is refused."""
    with FakeDialectServer(name, latency_s=0.01) as server:
        judge = OpenAICompatibleJudge(server.url, max_concurrent_requests=64)
        rows = [
            {**row, "id": f"{row['id']}-{n}", "query": f"{row['query']} ({n})"} for n in range(4) for row in samples()
        ]
        result = ragstone.evaluate(rows, ["ccrs", "ragas"], judge=judge, concurrency=64)
        assert server.n_refused <= MOST_REFUSED
    assert all(isinstance(outcome, Score) for outcome in result.outcomes)


@pytest.mark.parametrize("refuses", [False, True])
def test_a_refused_temperature_is_stated(refuses):
    """In the table, in the JSON and in the judge's hash: the server's own temperature makes another judge."""
    rules = JUDGE_DIALECTS["openai-reasoning"].rules if refuses else ()
    with FakeDialectServer("openai", changes={"rules": rules}) as server:
        judge = OpenAICompatibleJudge(server.url, model="fake-judge")
        planned = judge.identity.hash
        result = ragstone.evaluate(samples()[:2], "ccrs.qr", judge=judge)
    assert refuses == ("refuses temperature: the settings of its server applied" in str(result))
    assert (("temperature",) if refuses else ()) == result.judge.refused_parameters
    assert refuses == (planned != result.judge.hash)
    assert {result.judge.hash} == {outcome.judge_hash for outcome in result.outcomes}


def test_draws_do_not_change_the_temperature_of_verdicts():
    """An endpoint that accepts either `temperature` or `top_p` keeps the temperature, in every kind of request."""
    with FakeDialectServer("anthropic") as server:
        result = ragstone.evaluate(samples()[:4], ["ccrs.qr", "udcg"], judge=OpenAICompatibleJudge(server.url))
        accepted = [body for body in server.stats.requests if not {"temperature", "top_p"} <= body.keys()]
    assert all("temperature" in body for body in accepted)
    assert () == result.judge.refused_parameters


if __name__ == "__main__":
    print("\n".join([*HEADER, *(measured(name)[0] for name in JUDGE_DIALECTS)]))
