"""Experiments: score a dataset, summarize the scores with confidence intervals, compare systems."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.experiments._assert import assert_score
    from ragstone.experiments._cards import card_of as card_of
    from ragstone.experiments._cards import titles_of as titles_of
    from ragstone.experiments._clusters import AUTO_CLUSTER as AUTO_CLUSTER
    from ragstone.experiments._clusters import Clusters as Clusters
    from ragstone.experiments._clusters import choose_clusters as choose_clusters
    from ragstone.experiments._clusters import cluster_notes as cluster_notes
    from ragstone.experiments._clusters import count_units as count_units
    from ragstone.experiments._compare.compare import Comparison, compare
    from ragstone.experiments._compare.compare import compare_last as compare_last
    from ragstone.experiments._compare.regression import assert_no_regression
    from ragstone.experiments._evaluate import aevaluate, evaluate
    from ragstone.experiments._experiment import Experiment
    from ragstone.experiments._gates import ScoreCheck as ScoreCheck
    from ragstone.experiments._gates import check_source as check_source
    from ragstone.experiments._gates import check_thresholds as check_thresholds
    from ragstone.experiments._kept import count_kept as count_kept
    from ragstone.experiments._labels import add_labels as add_labels
    from ragstone.experiments._labels import draw_to_label as draw_to_label
    from ragstone.experiments._labels import drawn_rows as drawn_rows
    from ragstone.experiments._outcomes import OutcomeSource as OutcomeSource
    from ragstone.experiments._outcomes import SystemOutcomes as SystemOutcomes
    from ragstone.experiments._outcomes import TimeRange
    from ragstone.experiments._outcomes import check_same_questions as check_same_questions
    from ragstone.experiments._outcomes import names_of as names_of
    from ragstone.experiments._outcomes import read_outcomes as read_outcomes
    from ragstone.experiments._outcomes import store_of as store_of
    from ragstone.experiments._report import REPORT_FORMATS as REPORT_FORMATS
    from ragstone.experiments._report import build_report as build_report
    from ragstone.experiments._report import explain_answer as explain_answer
    from ragstone.experiments._report import find_worst as find_worst
    from ragstone.experiments._summary import MetricSummary as MetricSummary
    from ragstone.experiments._summary import check_level as check_level
    from ragstone.experiments._summary import format_table as format_table
    from ragstone.experiments._summary import stored_clusters as stored_clusters
    from ragstone.experiments._summary import summarize as summarize
    from ragstone.experiments._summary import summarize_store as summarize_store
    from ragstone.experiments._views.follow import FollowedReport as FollowedReport
    from ragstone.experiments._views.labeled import takes_labels as takes_labels

__all__ = [
    "Comparison",
    "Experiment",
    "TimeRange",
    "aevaluate",
    "assert_no_regression",
    "assert_score",
    "compare",
    "evaluate",
]

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_assert": "assert_score",
            "_cards": "card_of titles_of",
            "_clusters": "AUTO_CLUSTER Clusters choose_clusters cluster_notes count_units",
            "_compare.compare": "Comparison compare compare_last",
            "_compare.regression": "assert_no_regression",
            "_evaluate": "aevaluate evaluate",
            "_experiment": "Experiment",
            "_gates": "ScoreCheck check_source check_thresholds",
            "_kept": "count_kept",
            "_labels": "add_labels draw_to_label drawn_rows",
            "_outcomes": "OutcomeSource SystemOutcomes TimeRange check_same_questions names_of read_outcomes store_of",
            "_report": "REPORT_FORMATS build_report explain_answer find_worst",
            "_summary": "MetricSummary check_level format_table stored_clusters summarize summarize_store",
            "_views.follow": "FollowedReport",
            "_views.labeled": "takes_labels",
        },
    )
