"""Metrics: cards, the registry, and one file or package per family."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.metrics._arguments import Argument, base_name, quote, split_metrics
    from ragstone.metrics._ask import closed_object
    from ragstone.metrics._base import MetricBase, check_sample, make_failure
    from ragstone.metrics._card import (
        MEAN_OF_REPEATS,
        EmbedderMetric,
        Metric,
        MetricCard,
        ReaderMetric,
        WorkedExample,
        is_number,
    )
    from ragstone.metrics._history import question_fields
    from ragstone.metrics._prompts import OWN_PROMPTS, RewordedJudge, Task
    from ragstone.metrics._registry import (
        all_metrics,
        bind,
        find_composites,
        find_family,
        full_name,
        is_from_file,
        own_prompts,
        resolve_metrics,
        selects,
        with_absolute_paths,
    )
    from ragstone.metrics._relevance import LabelMode, label_of
    from ragstone.metrics._shared import compute_once, share_work
    from ragstone.metrics._utility import PassageUtility, passage_utilities
    from ragstone.metrics.ccrs import AnswerCorrectness
    from ragstone.metrics.composite import Composite, score_once
    from ragstone.metrics.criterion import Criterion
    from ragstone.metrics.text import rouge_l
    from ragstone.metrics.udcg import Udcg, UdcgTheta, save_gamma
    from ragstone.metrics.vera import VeraComposite

__all__ = [
    "AnswerCorrectness",
    "Composite",
    "Criterion",
    "Metric",
    "MetricBase",
    "MetricCard",
    "Udcg",
    "UdcgTheta",
    "VeraComposite",
    "WorkedExample",
    "all_metrics",
    "compute_once",
    "resolve_metrics",
]

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_arguments": "base_name Argument quote split_metrics",
            "_ask": "closed_object",
            "_base": "MetricBase check_sample make_failure",
            "_card": "EmbedderMetric MEAN_OF_REPEATS Metric MetricCard WorkedExample ReaderMetric is_number",
            "_history": "question_fields",
            "_prompts": "OWN_PROMPTS RewordedJudge Task",
            "_registry": (
                "all_metrics resolve_metrics bind find_composites find_family full_name "
                "is_from_file selects with_absolute_paths own_prompts"
            ),
            "_relevance": "LabelMode label_of",
            "_shared": "compute_once share_work",
            "_utility": "PassageUtility passage_utilities",
            "ccrs": "AnswerCorrectness",
            "composite": "Composite score_once",
            "criterion": "Criterion",
            "text": "rouge_l",
            "udcg": "Udcg UdcgTheta save_gamma",
            "vera": "VeraComposite",
        },
    )
