"""Reasons for the answers that a report shows, asked from the judge when the report is made. Scores do not change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ragstone._util.run_async import run_async
from ragstone.errors import JudgeError
from ragstone.experiments._cards import card_of
from ragstone.experiments._views.source import AnswerRecord
from ragstone.judges import Judge
from ragstone.schema import Score
from ragstone.scoring import explain_worst
from ragstone.worker import ScoringSetup

_ANY: Final = "ccrs.qr"
"""A judged metric, to check the judge with."""


class AskReasons:
    """Asks the judge for the reason of the lowest score of each answer, as `evaluate(reasons=...)` does.

    Only scores of this judge are explained: another model cannot give an account of a rating that it did not make.
    Raise ConfigurationError if `n` is negative, or the judge is the lexical baseline.
    """

    def __init__(self, n: int, judge: Judge) -> None:
        self.n = n
        self._judge = judge
        # Checked before outcomes are read, which can take a while.
        ScoringSetup(_ANY, judge=judge, reasons=n)

    def explain(self, records: Iterable[AnswerRecord]) -> list[str]:
        """Add a reason to the lowest judged score of each of the `n` worst answers.

        Return what limits the reasons, in sentences.
        """
        return run_async(self._explain([record for record in records if record.sample is not None]))

    async def _explain(self, records: list[AnswerRecord]) -> list[str]:
        by_id = {record.sample.id: record for record in records if record.sample is not None}
        scores = [o for record in records for o in record.outcomes if isinstance(o, Score) and o.judge is not None]
        cards = {score.metric: card_of(score.metric) for score in scores}
        # Metrics with a reader or an embedder are not rated by the judge alone.
        metrics = [
            metric
            for metric, card in cards.items()
            if card is not None and card.asks_judge and not card.reader_calls_per_passage and not card.embedder_calls
        ]
        if not metrics:
            return ["No shown answer has a rating that the judge can explain."]
        async with ScoringSetup(metrics, judge=self._judge, reasons=self.n, closes_models=True) as setup:
            try:
                await setup.scorer.prepare()
            except JudgeError as error:
                return [f"The judge could not be asked for reasons: {error}"]
            name = setup.judge.identity.name
            asked = [score for score in scores if score.judge == name and score.metric in metrics]
            samples = [record.sample for record in records if record.sample is not None]
            explained = await explain_worst(setup.scorer, samples, asked, self.n)
        for score in explained:
            record = by_id[score.sample_id]
            record.outcomes = [score if o.id == score.id else o for o in record.outcomes]
        return _notes(name, scores, explained)


def _notes(judge: str, scores: list[Score], explained: Iterable[object]) -> list[str]:
    notes = []
    others = sorted({score.judge for score in scores if score.judge and score.judge != judge})
    if others:
        notes.append(
            f"Reasons come from {judge}, which explains only its own scores. Other scores are from {', '.join(others)}."
        )
    missing = [
        str(score.details["no_reason"])
        for score in explained
        if isinstance(score, Score) and "no_reason" in score.details
    ]
    if missing:
        notes.append(f"The judge gave no reason for {len(missing)} of the shown answers ({missing[0]}).")
    return notes
