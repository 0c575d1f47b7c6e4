"""Views in notebooks: HTML with inline styles only, without scripts and requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragstone.views._comparison import comparison_sections
from ragstone.views._html_answer import answer_markup
from ragstone.views._markup import Markup, join, tag
from ragstone.views._model import AnswerView, ComparisonView, MetricRow, ReportView
from ragstone.views._sections import metrics_section, trend_section
from ragstone.views._svg import axis_chart, histogram_chart
from ragstone.views._words import format_interval, format_mean

_STYLE: Final = """
.ragstone svg .axis{stroke:#9a9a9a;stroke-width:1.5}.ragstone svg .interval{stroke:#7fa9d6;stroke-width:5}
.ragstone svg .mean{fill:#2f75bb}.ragstone svg .neutral,.ragstone svg .target{stroke:#8a8a8a;stroke-dasharray:3 3}
.ragstone svg .tick{fill:#8a8a8a;font:11px sans-serif}.ragstone svg .end{text-anchor:end}.ragstone svg .middle{text-anchor:middle}
.ragstone svg .low{fill:#c4602f}.ragstone svg .high{fill:#9a9a9a}.ragstone td{text-align:left;vertical-align:top}
.ragstone svg .unknown{fill:none;stroke:#9a9a9a}
.ragstone .chip{border:1px solid;border-radius:9px;padding:0 6px;font-size:11px;margin-right:4px}
.ragstone mark{background:#f6d9c9;color:#222;text-decoration:underline wavy #c4602f}.ragstone .soft,.ragstone small{opacity:.7}
.ragstone .columns{display:flex;flex-wrap:wrap;gap:24px}.ragstone .columns>div{flex:1 1 300px;min-width:0}
.ragstone svg .hollow{fill:none;stroke:#8a8a8a;stroke-width:1.5}.ragstone svg .gain{fill:#2a8a58}.ragstone svg .loss{fill:#c4602f}
.ragstone .finding,.ragstone .id,.ragstone small{display:block}.ragstone .up{color:#2a8a58}.ragstone .down{color:#c4602f}
.ragstone svg .band{fill:#7fa9d6;opacity:.4}.ragstone svg .trend{fill:none;stroke:#2f75bb;stroke-width:2}
.ragstone p{margin:4px 0}.ragstone svg{display:block;max-width:100%}.ragstone th{text-align:left}
.ragstone th,.ragstone td{padding:4px 12px 4px 0}.ragstone ol.passages{list-style:none;margin:0;padding:0}
.ragstone .passages li{padding:4px 0}.ragstone .why{color:#c4602f}.ragstone .fine{color:#2a8a58}
.ragstone .chip.distracting,.ragstone .chip.unsupported{color:#c4602f}.ragstone .chip.relevant{color:#2a8a58}
.ragstone .chip.used{color:#2f75bb}.ragstone .id{font:12px monospace;opacity:.7}.ragstone .plot svg{width:240px;height:auto;margin:6px 0}
.ragstone h4{margin:10px 0 2px}.ragstone .metrics b,.ragstone .question,.ragstone strong,.ragstone .box{display:block}.ragstone svg .box{fill:none;stroke:#8a8a8a}
.ragstone .text{white-space:pre-wrap}.ragstone .bad{color:#c4602f;font-weight:600}
"""


def notebook_report(view: ReportView) -> str:
    """Return the verdict and the metrics for a notebook."""
    body = join(
        *(tag("p", tag("b", statement.text) if n == 0 else statement.text) for n, statement in enumerate(view.verdict)),
        tag("p", "Next: ", view.next.text) if view.next else None,
        *(tag("p", notice.text, class_="soft") for notice in view.notices),
        metrics_section(view),
        None if view.trend is None else trend_section(view.trend),
        tag(
            "p", ".worst(): the worst answers. .report('report.html'): the page. .plot(metric): a chart.", class_="soft"
        ),
    )
    return _wrap(body)


def notebook_comparison(view: ComparisonView) -> str:
    """Return the verdict, the means and the differences of systems for a notebook."""
    return _wrap(join(*comparison_sections(view), tag("p", ".write('comparison.html'): the page.", class_="soft")))


def notebook_answers(views: Sequence[AnswerView]) -> str:
    """Return answers with their evidence for a notebook."""
    return _wrap(join(*(tag("div", answer_markup(view), tag("hr")) for view in views)))


def _wrap(body: Markup) -> str:
    return tag("div", tag("style", Markup(_STYLE)), body, class_="ragstone")


class Chart:
    """Mean, interval and distribution of one metric, as a chart and as data for any plot library.

    Args:
        row: The metric.
    """

    def __init__(self, row: MetricRow) -> None:
        self._row = row

    @property
    def data(self) -> Mapping[str, Any]:
        """The numbers of the chart.

        `metric`, `mean`, `low` and `high` of the interval, `n`, `axis` (both ends) and `histogram` (counts in equal parts
        of the axis).
        """
        row, estimate = self._row, self._row.estimate
        return {
            "metric": row.name,
            "mean": None if estimate is None else estimate.value,
            "low": None if estimate is None else estimate.low,
            "high": None if estimate is None else estimate.high,
            "n": row.n_scored,
            "axis": row.axis,
            "histogram": row.histogram,
        }

    def to_svg(self) -> str:
        """Return mean and interval as an SVG document with its own styles."""
        svg = axis_chart(self._row)
        style = tag("style", Markup(_STYLE.replace(".ragstone svg ", "")))
        start, _, rest = svg.partition(">")
        return f'{start} xmlns="http://www.w3.org/2000/svg">{style}{rest}'

    def _repr_html_(self) -> str:
        row, estimate = self._row, self._row.estimate
        mean = "no score" if estimate is None else f"{format_mean(estimate)} {format_interval(estimate)}"
        body = join(
            tag("p", tag("b", row.title), " ", tag("code", row.name), f" {mean}, {row.n_scored:,} scored"),
            tag("p", row.question, class_="soft"),
            axis_chart(row),
            histogram_chart(row),
        )
        return _wrap(tag("div", body, class_="plot"))
