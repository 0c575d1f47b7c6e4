"""Graded records of 40 questions, and the scores of two metrics for them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from ragstone.schema import MetricScale, Score


def write_graded_records(tmp_path: Path) -> tuple[Path, list[dict[str, Any]], dict[str, dict[str, float]]]:
    """Outcomes of two metrics on graded records of 40 questions, with labels from 0 to 3, and the labels."""
    rng = random.Random(7)
    lines, labels, scores = [], [], {"ce": {}, "ce.enriched": {}}
    for question in range(40):
        for record in range(6):
            id_, grade = f"q{question}r{record}", rng.randint(0, 3) if record > 1 else 3 * record
            labels.append({"id": id_, "label": grade})
            for metric, noise in (("ce", 1.5), ("ce.enriched", 0.3)):
                scores[metric][id_] = value = round(grade + rng.gauss(0, noise), 3)
                same = {"sample_id": id_, "metric": metric, "metric_version": "1", "fingerprint": f"{question:024x}"}
                lines.append(Score(value=value, method="cross_encoder", scale=MetricScale(), **same))
    path = tmp_path / "records.jsonl"
    path.write_text("".join(line.model_dump_json() + "\n" for line in lines))
    return path, labels, scores
