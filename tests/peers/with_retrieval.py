"""Retrieval measures and ROUGE-L beside the libraries that people use for them: time, and the largest difference of a value."""

from __future__ import annotations

import json
import os
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import ir_measures
import ranx
from ir_measures import AP, RR, P, R, nDCG
from rouge_score.rouge_scorer import RougeScorer

from ragstone.metrics.ranking import average_precision, ndcg, precision, recall, reciprocal_rank
from ragstone.metrics.text import rouge_l

ROUNDS = int(os.environ.get("RAGSTONE_PEERS_ROUNDS", "3"))
QUERIES, DOCUMENTS = 2_000, 100
OURS: list[tuple[Callable[..., float | None], int | None]] = [
    (precision, 5),
    (recall, 5),
    (reciprocal_rank, None),
    (average_precision, None),
    (ndcg, 10),
]
TREC = [P @ 5, R @ 5, RR, AP, nDCG(gains={0: 0, 1: 1, 2: 3, 3: 7}) @ 10]
RANX = ["precision@5", "recall@5", "mrr", "map", "ndcg_burges@10"]


def run_and_qrels() -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """Return random rankings and judgments, of which half were retrieved."""
    rng = random.Random(0)
    run, qrels = {}, {}
    for query in range(QUERIES):
        docs = [f"d{doc}" for doc in rng.sample(range(1_000_000), DOCUMENTS + 10)]
        scores = sorted((rng.random() for _ in range(DOCUMENTS)), reverse=True)
        run[f"q{query}"] = dict(zip(docs, scores, strict=False))
        qrels[f"q{query}"] = {doc: rng.randint(0, 3) for doc in docs[-20:]}
    return run, qrels


def times(works: dict[str, Callable[[], list[float]]]) -> list[list[str]]:
    """Run each work in turn, and return its CPU and its largest difference from ours."""
    results = {name: work() for name, work in works.items()}  # the first call compiles or loads
    rounds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            start = time.process_time()
            work()
            rounds[name].append(time.process_time() - start)
    ours = rounds["ragstone"]
    rows = []
    for name, found in rounds.items():
        ratio = statistics.median(other / our for other, our in zip(found, ours, strict=True))
        apart = max(abs(a - b) for a, b in zip(results[name], results["ragstone"], strict=True))
        rows.append([name, f"{ratio:.2f}", f"{apart:.1e}"])
    return rows


def main() -> dict[str, Any]:
    """Measure."""
    run, qrels = run_and_qrels()

    def ours() -> list[float]:
        rankings = {query: sorted(docs, key=lambda doc, docs=docs: -docs[doc]) for query, docs in run.items()}
        return [
            statistics.fmean(measure(rankings[query], qrels[query], k=k) or 0.0 for query in qrels)
            for measure, k in OURS
        ]

    def trec() -> list[float]:
        found = ir_measures.calc_aggregate(TREC, qrels, run)
        return [found[name] for name in TREC]

    def by_ranx() -> list[float]:
        found = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), RANX)
        return [float(found[name]) for name in RANX]

    rng = random.Random(1)
    words = ["harbor", "ferry", "light", "passage", "tower", "town", "the", "of", "and", "it", "is", "built"]
    texts = [(" ".join(rng.choices(words, k=120)), " ".join(rng.choices(words, k=120))) for _ in range(60)]
    scorer = RougeScorer(["rougeL"])
    rouges: dict[str, Callable[[], list[float]]] = {
        "ragstone": lambda: [rouge_l(one, [other]).f1 for one, other in texts],
        "rouge-score": lambda: [scorer.score(other, one)["rougeL"].fmeasure for one, other in texts],
    }
    rows = [
        ["5 measures of 2,000 rankings", *row]
        for row in times({"ragstone": ours, "ir-measures": trec, "ranx": by_ranx})
    ]
    rows += [["ROUGE-L of 60 pairs of texts", *row] for row in times(rouges)]
    return {
        "title": "Metrics without a judge",
        "head": ["work", "library", "CPU, x ragstone", "largest difference of a value"],
        "rows": rows,
    }


print("\n" + json.dumps(main()))
