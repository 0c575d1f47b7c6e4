"""The results of a `BatchEvalRunner` as a data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llama_index.core.evaluation import EvaluationResult

from ragstone.errors import MissingExtraError
from ragstone.schema import Failure, NotApplicable, Score

if TYPE_CHECKING:
    import pandas as pd


def results_to_pandas(results: Mapping[str, Sequence[EvaluationResult]]) -> pd.DataFrame:
    """Return a data frame with one row per evaluator and response.

    LlamaIndex's `get_results_df` counts a missing score as 0.0. Here it is missing, so that means leave it out, and the
    columns `outcome`, `kind` and `reason` show why.

    Args:
        results: What `BatchEvalRunner` returns: lists of results by the evaluator's name. Results of other evaluators are
            accepted as well.

    Returns:
        Columns: `row` (position of the response, from 0), `metric`, `outcome` ("score", "not_applicable", "failure",
        "unreadable"), `value`, `ci_low` and `ci_high` (confidence interval, if it was measured), `passing`, `reason`, `kind`
        (of a failure), `query`, `response`, `contexts`.

    Raises:
        MissingExtraError: If pandas is not installed.

    Examples:
        ```python
        frame = results_to_pandas(runner.evaluate_queries(query_engine, queries))
        frame.groupby("metric")["value"].agg(["mean", "count"])
        ```
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError(feature="results_to_pandas()", package="pandas", extra="ragstone[pandas]") from error

    rows = [_row(position, name, result) for name, found in results.items() for position, result in enumerate(found)]
    frame = pd.DataFrame(rows, columns=list(_row(0, "", EvaluationResult())))
    numbers = ["value", "ci_low", "ci_high"]
    return frame.astype(dict.fromkeys(numbers, "float64"))


def _row(position: int, name: str, result: EvaluationResult) -> dict[str, Any]:
    outcome = getattr(result, "outcome", None)
    interval = outcome.interval if isinstance(outcome, Score) else None
    contexts = result.contexts
    return {
        "row": position,
        "metric": name,
        "outcome": _outcome(result, outcome),
        "value": result.score,
        "ci_low": None if interval is None else interval.low,
        "ci_high": None if interval is None else interval.high,
        "passing": result.passing,
        "reason": outcome.reason if isinstance(outcome, NotApplicable | Failure) else result.invalid_reason,
        "kind": outcome.kind if isinstance(outcome, Failure) else None,
        "query": result.query,
        "response": result.response,
        "contexts": None if contexts is None else list(contexts),
    }


def _outcome(result: EvaluationResult, outcome: object) -> str:
    if isinstance(outcome, Score | NotApplicable | Failure):
        return outcome.outcome
    return "unreadable" if result.score is None or result.invalid_result else "score"
