"""Views of results: one model of what users see, and its renderers."""

from ragstone.views._comparison_files import COMPARISON_WRITERS as COMPARISON_WRITERS
from ragstone.views._html import HtmlReport as HtmlReport
from ragstone.views._label_page import label_document as label_document
from ragstone.views._label_page import label_item as label_item
from ragstone.views._live import LiveDocument as LiveDocument
from ragstone.views._live import answer_part as answer_part
from ragstone.views._live import live_parts as live_parts
from ragstone.views._live import live_places as live_places
from ragstone.views._live import problem_part as problem_part
from ragstone.views._live import question_rows as question_rows
from ragstone.views._markdown import Escaped as Escaped
from ragstone.views._markdown import MarkdownReport as MarkdownReport
from ragstone.views._markdown import code_in_markdown as code_in_markdown
from ragstone.views._markdown import escape_markdown as escape_markdown
from ragstone.views._markdown import table_in_markdown as table_in_markdown
from ragstone.views._model import AnswerView, ReportView
from ragstone.views._model import CauseFlow as CauseFlow
from ragstone.views._model import CauseRow as CauseRow
from ragstone.views._model import ChangedAnswer as ChangedAnswer
from ragstone.views._model import ChangesView as ChangesView
from ragstone.views._model import ComparedMetric as ComparedMetric
from ragstone.views._model import ComparisonView as ComparisonView
from ragstone.views._model import Difference as Difference
from ragstone.views._model import LabeledMetric as LabeledMetric
from ragstone.views._model import LabelsView as LabelsView
from ragstone.views._model import MetricRow as MetricRow
from ragstone.views._model import PassageView as PassageView
from ragstone.views._model import Provenance as Provenance
from ragstone.views._model import QuestionRow as QuestionRow
from ragstone.views._model import ReleaseMark as ReleaseMark
from ragstone.views._model import ScoreView as ScoreView
from ragstone.views._model import SliceRow as SliceRow
from ragstone.views._model import SliceTable as SliceTable
from ragstone.views._model import Span as Span
from ragstone.views._model import Statement as Statement
from ragstone.views._model import SystemEstimate as SystemEstimate
from ragstone.views._model import SystemScores as SystemScores
from ragstone.views._model import TrendPoint as TrendPoint
from ragstone.views._model import TrendRow as TrendRow
from ragstone.views._model import TrendView as TrendView
from ragstone.views._notebook import Chart
from ragstone.views._notebook import notebook_comparison as notebook_comparison
from ragstone.views._notebook import notebook_report as notebook_report
from ragstone.views._terminal import ReportText as ReportText
from ragstone.views._terminal_answers import Answers
from ragstone.views._terminal_answers import AnswersText as AnswersText
from ragstone.views._terminal_answers import AnswerText as AnswerText
from ragstone.views._words import describe_low as describe_low
from ragstone.views._words import format_cause as format_cause
from ragstone.views._words import format_interval as format_interval
from ragstone.views._words import format_mean as format_mean
from ragstone.views._words import format_share as format_share

__all__ = ["AnswerView", "Answers", "Chart", "ReportView"]
