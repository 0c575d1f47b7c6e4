"""Seven measures of 10,000 queries with 100 documents each: ours, ir_measures and ranx in one run."""

from __future__ import annotations

import random
import time

import pytest

from ragstone.metrics.ranking import ranking_measures

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore")]

QUERIES, DOCUMENTS, JUDGED, ROUNDS = 10_000, 100, 20, 3
MEASURES = {
    "precision@5": "precision@5",
    "recall@5": "recall@5",
    "f1@5": "f1@5",
    "hit_rate@5": "hit_rate@5",
    "reciprocal_rank": "mrr",
    "average_precision": "map",
    "ndcg@10": "ndcg_burges@10",
}
"""Ours, and what ranx calls them."""


def a_run(*, falling):
    """Scores as a retriever hands them over (falling), or in any order; half of what is judged was retrieved."""
    rng = random.Random(0)
    run, qrels = {}, {}
    for query in range(QUERIES):
        docs = [f"d{doc}" for doc in rng.sample(range(1_000_000), DOCUMENTS + JUDGED // 2)]
        scores = [rng.random() for _ in range(DOCUMENTS)]
        run[f"q{query}"] = dict(zip(docs, sorted(scores, reverse=True) if falling else scores, strict=False))
        judged = rng.sample(docs[:DOCUMENTS], JUDGED // 2) + docs[DOCUMENTS:]
        qrels[f"q{query}"] = {doc: rng.randint(0, 3) for doc in judged}
    return run, qrels


def best_of(work):
    """Seconds of the fastest round, and what came out."""
    took = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        result = work()
        took.append(time.perf_counter() - start)
    return min(took), result


@pytest.mark.parametrize("falling", [True, False], ids=["scores fall", "scores in any order"])
def test_as_fast_as_the_best_library(falling):
    """From dictionaries to values, which is what a user has and wants; compiling is not counted."""
    ir_measures, ranx = pytest.importorskip("ir_measures"), pytest.importorskip("ranx")
    from ir_measures import AP, RR, P, R, Success, nDCG

    run, qrels = a_run(falling=falling)
    ours_s, ours = best_of(lambda: ranking_measures(run, qrels, list(MEASURES)))
    # It has no F1.
    names = [P @ 5, R @ 5, Success @ 5, RR, AP, nDCG(gains={0: 0, 1: 1, 2: 3, 3: 7}) @ 10]
    trec_s, trec = best_of(lambda: ir_measures.calc_aggregate(names, qrels, run))
    ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), list(MEASURES.values()))  # compiles
    packing_s, packed = best_of(lambda: (ranx.Qrels(qrels), ranx.Run(run)))
    numba_s, numba = best_of(lambda: ranx.evaluate(*packed, list(MEASURES.values())))
    for name, theirs in MEASURES.items():
        assert float(numba[theirs]) == pytest.approx(ours.mean(name).value, abs=1e-9)
    assert trec[AP] == pytest.approx(ours.mean("average_precision").value, abs=1e-6)
    print(
        f"\nours {ours_s:.2f} s; ir_measures {trec_s:.2f} s = {trec_s / ours_s:.1f} x; "
        f"ranx {packing_s + numba_s:.2f} s = {(packing_s + numba_s) / ours_s:.1f} x, "
        f"of which {numba_s:.2f} s = {numba_s / ours_s:.1f} x after its own packing"
    )
    assert ours_s < trec_s
    assert ours_s < packing_s + numba_s
