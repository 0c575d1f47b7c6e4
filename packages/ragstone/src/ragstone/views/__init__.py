"""Views of results: one model of what users see, and its renderers."""

from ragstone.views._comparison_files import COMPARISON_WRITERS
from ragstone.views._html import html_report
from ragstone.views._label_page import label_document, label_item
from ragstone.views._live import (
    AlarmView,
    LiveDocument,
    answer_part,
    found_part,
    live_parts,
    live_places,
    problem_part,
    question_rows,
)
from ragstone.views._markdown import Escaped, code_in_markdown, escape_markdown, markdown_report, table_in_markdown
from ragstone.views._markup import Markup
from ragstone.views._model import (
    AnswerView,
    CauseFlow,
    CauseRow,
    ChangedAnswer,
    ChangesView,
    ComparedMetric,
    ComparisonView,
    Difference,
    LabeledMetric,
    LabelsView,
    MetricRow,
    PassageView,
    Provenance,
    QuestionRow,
    ReleaseMark,
    ReportView,
    RunRow,
    ScoreView,
    SliceRow,
    SliceTable,
    Span,
    SpentRow,
    Statement,
    StepView,
    SystemEstimate,
    SystemScores,
    TrendPoint,
    TrendRow,
    TrendView,
    TrialView,
)
from ragstone.views._notebook import Chart, compared_chart, metric_chart, notebook_comparison, notebook_report
from ragstone.views._terminal import ReportText
from ragstone.views._terminal_answers import Answers, AnswerText, list_answers
from ragstone.views._words import (
    cause_rows,
    describe_low,
    describe_spent,
    format_day,
    format_interval,
    format_mean,
    format_share,
)

__all__ = ["AnswerView", "Answers", "Chart", "ReportView"]
