"""Experiments: score a dataset, summarize the scores with confidence intervals, compare systems."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.experiments._assert import assert_score
    from ragstone.experiments._cards import card_of, titles_of
    from ragstone.experiments._cases import choose_cases, kind_of_set
    from ragstone.experiments._clusters import AUTO_CLUSTER, Clusters, choose_clusters, cluster_notes, count_units
    from ragstone.experiments._compare.compare import Comparison, compare, compare_last
    from ragstone.experiments._compare.regression import assert_no_regression
    from ragstone.experiments._evaluate import aevaluate, evaluate
    from ragstone.experiments._experiment import Experiment
    from ragstone.experiments._gates import ScoreCheck, check_source, check_thresholds
    from ragstone.experiments._kept import count_kept
    from ragstone.experiments._labels import add_labels, draw_to_label, drawn_rows
    from ragstone.experiments._looks import describe_looks
    from ragstone.experiments._outcomes import (
        PLANTED,
        OutcomeSource,
        SystemOutcomes,
        check_same_questions,
        names_of,
        open_source,
        read_outcomes,
        store_of,
    )
    from ragstone.experiments._repair.shares import RepairTrial
    from ragstone.experiments._repair.trial import repair
    from ragstone.experiments._report import REPORT_FORMATS, build_report, explain_answer, find_worst
    from ragstone.experiments._runs import check_run, save_run
    from ragstone.experiments._summary import (
        MetricSummary,
        check_level,
        format_table,
        stored_clusters,
        summarize_store,
        summarize_table,
    )
    from ragstone.experiments._table import TableReader
    from ragstone.experiments._time_range import TimeRange
    from ragstone.experiments._views.follow import FollowedReport
    from ragstone.experiments._views.labeled import takes_labels
    from ragstone.experiments._views.where import select_questions

__all__ = [
    "Comparison", "Experiment", "RepairTrial", "TimeRange", "aevaluate", "assert_no_regression",
    "assert_score", "compare", "evaluate", "repair",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_assert": "assert_score",
            "_cards": "card_of titles_of",
            "_cases": "choose_cases kind_of_set",
            "_clusters": "AUTO_CLUSTER Clusters choose_clusters cluster_notes count_units",
            "_compare.compare": "Comparison compare compare_last",
            "_compare.regression": "assert_no_regression",
            "_evaluate": "aevaluate evaluate",
            "_experiment": "Experiment",
            "_gates": "ScoreCheck check_source check_thresholds",
            "_kept": "count_kept",
            "_labels": "add_labels draw_to_label drawn_rows",
            "_looks": "describe_looks",
            "_outcomes": (
                "PLANTED OutcomeSource SystemOutcomes check_same_questions names_of open_source read_outcomes store_of"
            ),
            "_repair.shares": "RepairTrial",
            "_repair.trial": "repair",
            "_report": "REPORT_FORMATS build_report explain_answer find_worst",
            "_runs": "check_run save_run",
            "_summary": "MetricSummary check_level format_table stored_clusters summarize_store summarize_table",
            "_table": "TableReader",
            "_time_range": "TimeRange",
            "_views.follow": "FollowedReport",
            "_views.labeled": "takes_labels",
            "_views.where": "select_questions",
        },
    )
