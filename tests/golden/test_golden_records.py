"""Rankings of graded records by `validate_metrics`, against ir_measures."""

from __future__ import annotations

import json

import pytest

from graded_records import write_graded_records
from ragstone_lab import validate_metrics

ir_measures = pytest.importorskip("ir_measures")
FAST = {"n_resamples": 100, "n_permutations": 50}


def test_records_are_ranked_as_ir_measures_ranks_them(tmp_path):
    """MAP, nDCG and MRR of both metrics, and the paired difference, from an independent computation."""
    from ir_measures import AP, RR, Qrel, ScoredDoc, nDCG

    path, labels, scores = write_graded_records(tmp_path)
    report = validate_metrics(path, labels=labels, metrics=["ce", "ce.enriched"], **FAST)
    grades = {row["id"]: row["label"] for row in labels}
    qrels = [Qrel(id_[: id_.index("r")], id_, grade) for id_, grade in grades.items()]
    measures = {"MAP": AP(rel=2), "nDCG": nDCG, "MRR": RR(rel=2)}
    expected = {}
    for metric, by_id in scores.items():
        run = [ScoredDoc(id_[: id_.index("r")], id_, value) for id_, value in by_id.items()]
        for each in ir_measures.iter_calc([*measures.values()], qrels, run):
            expected.setdefault((metric, str(each.measure)), {})[each.query_id] = each.value
    found = {(r.metric, r.measure): r for r in report.records}
    assert 6 == len(found)
    for (metric, measure), ranking in found.items():
        own = expected[metric, str(measures[measure])]
        assert ranking.mean.value == pytest.approx(sum(own.values()) / 40, abs=1e-9)
        assert (40, 0, 0, 0, 1.5) == (
            ranking.mean.n, ranking.n_undefined, ranking.n_unscored, ranking.n_tied, ranking.relevant_from
        )  # fmt: skip
        if metric == "ce":
            assert ranking.difference is None
        else:
            base = expected["ce", str(measures[measure])]
            assert ranking.difference.value == pytest.approx(sum(own[q] - base[q] for q in own) / 40, abs=1e-9)
            assert ranking.difference.low <= ranking.difference.value <= ranking.difference.high
    assert found["ce.enriched", "nDCG"].difference.low > 0
    assert "Differences from ce are paired by question" in str(report)
    assert 6 == len(json.loads(json.dumps(report.to_dict()))["records"])
