"""Ranking metrics against trec_eval and ndeval (by way of ir_measures), ranx, and worked examples with their corrected values.

Those tools break equal scores by id, so they are given strictly falling scores; they know no repeated passages and no
fractional grades; and where nothing is relevant they say 0, which here is undefined.
"""

from __future__ import annotations

import math
import random

import pytest

from ragstone.metrics.ranking import (
    alpha_ndcg,
    average_precision,
    f1,
    hit_rate,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)

ir_measures = pytest.importorskip("ir_measures")

pytestmark = pytest.mark.filterwarnings("ignore")  # numba's and those of the tools: not ours to repair

KS = (1, 3, 5, 10, 50)
OURS = {"precision": precision, "recall": recall, "f1": f1, "hit_rate": hit_rate, "ndcg": ndcg}


def cases(n, seed):
    """Random queries: short and long lists, none at all, all or nothing relevant, grades from -1 to 4."""
    rng = random.Random(seed)
    rankings, qrels = {}, {}
    for query in range(n):
        pool = [f"d{i}" for i in rng.sample(range(1000), rng.randint(1, 60))]
        rankings[f"q{query}"] = rng.sample(pool, rng.randint(0, len(pool)))
        share = rng.choice([0.0, 0.1, 0.5, 1.0])
        judged = rng.sample(pool, rng.randint(1, len(pool)))
        qrels[f"q{query}"] = {
            doc: rng.randint(1, 4) if rng.random() < share else rng.choice([-1, 0, 0]) for doc in judged
        }
    return rankings, qrels


def falling(rankings):
    """Scores that say the order and nothing else."""
    return {
        query: {doc: float(len(docs) - i) for i, doc in enumerate(docs)} for query, docs in rankings.items() if docs
    }


def by_query(measures, qrels, run):
    """What ir_measures finds, by measure and query."""
    found = {}
    # Asked for both gains at once, version 0.4 mixes them up, depending on the order of a set.
    mapped = [measure for measure in measures.values() if "gains=" in str(measure)]
    for asked in (mapped, [measure for measure in measures.values() if measure not in mapped]):
        for metric in ir_measures.iter_calc(asked, qrels, run) if asked else ():
            found.setdefault(metric.measure, {})[metric.query_id] = metric.value
    return {name: found.get(measure, {}) for name, measure in measures.items()}


def theirs():
    """Our names and their measures."""
    from ir_measures import AP, RR, P, R, Success, nDCG

    gains = {-1: 0, 0: 0, 1: 1, 2: 3, 3: 7, 4: 15}
    at = {}
    for k in KS:
        at |= {
            f"precision@{k}": P @ k,
            f"recall@{k}": R @ k,
            f"hit_rate@{k}": Success @ k,
            f"average_precision@{k}": AP @ k,
        }
        at |= {f"ndcg@{k}": nDCG(gains=gains) @ k, f"ndcg_linear@{k}": nDCG @ k}
    return at | {"reciprocal_rank": RR, "average_precision": AP, "ndcg_linear": nDCG}


def ours(name, ranking, qrels):
    """One of our functions, by name."""
    kind, _, k = name.partition("@")
    cut = int(k) if k else None
    if kind == "ndcg_linear":
        return ndcg(ranking, qrels, k=cut, gain="linear")
    function = OURS | {"reciprocal_rank": reciprocal_rank, "average_precision": average_precision}
    return function[kind](ranking, qrels, k=cut)


def values(name, run, qrels):
    """One of our functions for each query of a run of scores, where it is defined. Equal scores keep their order."""
    rankings = {query: sorted(docs, key=lambda doc, docs=docs: -docs[doc]) for query, docs in run.items()}
    found = {query: ours(name, rankings.get(query, []), grades) for query, grades in qrels.items()}
    return {query: value for query, value in found.items() if value is not None}


def test_single_queries_agree_with_trec_eval():
    """Every measure and cut-off, to trec_eval's precision; where nothing is relevant we say undefined, it says 0."""
    rankings, qrels = cases(300, seed=1)
    measures = theirs()
    expected = by_query(measures, qrels, falling(rankings))
    n_undefined = 0
    for name in measures:
        for query, ranking in rankings.items():
            value = ours(name, ranking, qrels[query])
            if value is None:
                assert all(grade <= 0 for grade in qrels[query].values())
                assert 0 == expected[name].get(query, 0)
                n_undefined += 1
            else:
                # A single-precision sum in AP.
                assert expected[name].get(query, 0.0) == pytest.approx(value, abs=2e-7), (name, query)
    assert n_undefined > 100


def test_files_are_read_as_the_tool_does(tmp_path):
    """A run with strictly falling scores is ranked as the tool does, and it reads the same grades."""
    from ragstone.reading import read_qrels, read_trec_run

    rankings, qrels = cases(60, seed=6)
    run = falling(rankings)
    lines = [
        f"{q} Q0 {doc} {rank} {score} x\n" for q, docs in run.items() for rank, (doc, score) in enumerate(docs.items())
    ]
    (tmp_path / "ours.run").write_text("".join(lines))
    graded = [f"{q} 0 {doc} {grade}\n" for q, grades in qrels.items() for doc, grade in grades.items()]
    (tmp_path / "ours.qrels").write_text("".join(graded))
    measures = {"average_precision": ir_measures.AP, "ndcg_linear": ir_measures.nDCG}
    expected = by_query(
        measures,
        list(ir_measures.read_trec_qrels(str(tmp_path / "ours.qrels"))),
        list(ir_measures.read_trec_run(str(tmp_path / "ours.run"))),
    )
    assert qrels == read_qrels(tmp_path / "ours.qrels")
    for data in (run, read_trec_run(tmp_path / "ours.run")):
        for name in measures:
            for query, value in values(name, data, qrels).items():
                assert expected[name].get(query, 0.0) == pytest.approx(value, abs=2e-7)


def test_whole_runs_agree_with_ranx():
    """Its exponential gain is called `ndcg_burges`, and it takes no query without a list: those are left out here."""
    ranx = pytest.importorskip("ranx")
    rankings, qrels = cases(150, seed=4)
    run = falling(rankings)
    qrels = {q: {doc: max(grade, 0) for doc, grade in grades.items()} for q, grades in qrels.items() if q in run}
    names = {
        "precision@5": "precision@5",
        "recall@10": "recall@10",
        "f1@5": "f1@5",
        "hit_rate@3": "hit_rate@3",
        "reciprocal_rank": "mrr",
        "reciprocal_rank@10": "mrr@10",
        "average_precision": "map",
        "ndcg@10": "ndcg_burges@10",
        "ndcg_linear@10": "ndcg@10",
        "ndcg": "ndcg_burges",
    }
    runner = ranx.Run(run)
    ranx.evaluate(ranx.Qrels(qrels), runner, list(names.values()))
    for name, their_name in names.items():
        found = values(name, run, qrels)
        assert found
        for query, value in found.items():
            assert runner.scores[their_name][query] == pytest.approx(value, abs=1e-12), (name, query)


@pytest.mark.parametrize("alpha", [0.5, 0.3])
def test_alpha_ndcg_agrees_with_ndeval(alpha):
    """Ideals with ties included: both give them to the larger id."""
    pytest.importorskip("pyndeval")
    from ir_measures import Qrel, ScoredDoc, alpha_nDCG

    rng = random.Random(5)
    rankings, covered = {}, {}
    for query in map(str, range(200)):
        docs = [f"d{i:02}" for i in range(rng.randint(2, 20))]
        rankings[query] = rng.sample(docs, rng.randint(1, len(docs)))
        covered[query] = {
            str(t): rng.sample(docs, rng.randint(1, min(6, len(docs)))) for t in range(1, rng.randint(3, 7))
        }
    qrels = [
        Qrel(query, doc, 1, topic)
        for query, topics in covered.items()
        for topic, passages in topics.items()
        for doc in passages
    ]
    run = [ScoredDoc(q, doc, score) for q, docs in falling(rankings).items() for doc, score in docs.items()]
    for k in (5, 10, 20):
        measure = alpha_nDCG(alpha=alpha, judged_only=False) @ k
        expected = by_query({"alpha": measure}, qrels, run)["alpha"]
        for query, ranking in rankings.items():
            value = alpha_ndcg(ranking, covered[query], k=k, alpha=alpha)
            assert expected[query] == pytest.approx(value, abs=1e-5)


def test_the_guide_s_examples_with_the_corrected_values():
    """Recomputed: IDCG 13.347 (printed 13.36), nDCG 0.872 (0.871), exercise 4 DCG 9.008 and IDCG 10.823, ratio 0.832."""

    def graded(*grades):
        return [f"d{i}" for i in range(len(grades))], {f"d{i}": grade for i, grade in enumerate(grades)}

    assert 0.872 == pytest.approx(ndcg(*graded(3, 0, 2, 1, 3), k=5), abs=5e-4)
    assert 0.884 == pytest.approx(ndcg(*graded(3, 0, 2, 1, 3), k=5, gain="linear"), abs=5e-4)
    assert 0.832 == pytest.approx(ndcg(*graded(2, 3, 0, 1, 2), k=5), abs=5e-4)
    dcg = sum((2**g - 1) / math.log2(i + 2) for i, g in enumerate((3, 0, 2, 1, 3)))
    assert 13.347 == pytest.approx(dcg / ndcg(*graded(3, 0, 2, 1, 3), k=5), abs=5e-4)

    ten, found = [f"d{i}" for i in range(1, 11)], {f"d{i}": 1 for i in (1, 3, 5, 8, 10)}
    all_relevant = found | {f"missed{i}": 1 for i in range(10)}
    assert 0.60 == pytest.approx(precision(ten, all_relevant, k=5))
    assert 0.50 == pytest.approx(precision(ten, all_relevant, k=10))
    assert 0.20 == pytest.approx(recall(ten, all_relevant, k=5))
    assert 1 / 3 == pytest.approx(recall(ten, all_relevant, k=10))
    assert 0.40 == pytest.approx(f1(ten, all_relevant, k=10))

    def mrr(*ranks):
        return sum(reciprocal_rank(ten, {f"d{rank}": 1}) for rank in ranks) / len(ranks)

    assert 0.708 == pytest.approx(mrr(1, 3, 2, 1), abs=5e-4)
    assert 0.617 == pytest.approx(mrr(1, 4, 2, 1, 3), abs=5e-4)
