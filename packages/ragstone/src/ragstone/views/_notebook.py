"""Views in notebooks: HTML with inline styles only, without scripts and requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragstone.views._changes_html import change_cell, changes_section
from ragstone.views._html_answer import answer_markup
from ragstone.views._markup import Markup, join, tag
from ragstone.views._model import AnswerView, MetricRow, ReportView
from ragstone.views._sections import trend_section
from ragstone.views._svg import axis_chart, histogram_chart
from ragstone.views._words import describe_rules, divide_rows, format_interval, format_mean

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
.ragstone h4{margin:10px 0 2px}.ragstone .text{white-space:pre-wrap}.ragstone .bad{color:#c4602f;font-weight:600}
"""


def notebook_report(view: ReportView) -> str:
    """Return the verdict and the metrics for a notebook."""
    changes = view.changes
    metrics, others = divide_rows(view.metrics)
    rows = [_metric(row, has_change=changes is not None) for row in metrics]
    names = ["metric", "mean [CI]", "on its range", "scores", "scored", changes and f"against {changes.baseline}"]
    head = tag("tr", *(tag("th", name) for name in names if name))
    body = join(
        *(tag("p", tag("b", statement.text) if n == 0 else statement.text) for n, statement in enumerate(view.verdict)),
        tag("p", "Next: ", view.next.text) if view.next else None,
        *(tag("p", notice.text, class_="soft") for notice in view.notices),
        tag("table", head, *rows),
        *(tag("p", line, class_="soft") for line in describe_rules(metrics)),
        tag("p", f"Not applicable to any sample: {', '.join(row.title for row in others)}.", class_="soft")
        if others
        else None,
        None if view.trend is None else trend_section(view.trend),
        None if changes is None else changes_section(changes, is_linked=False),
        tag(
            "p", ".worst(): the worst answers. .report('report.html'): the page. .plot(metric): a chart.", class_="soft"
        ),
    )
    return _wrap(body)


def notebook_answers(views: Sequence[AnswerView]) -> str:
    """Return answers with their evidence for a notebook."""
    return _wrap(join(*(tag("div", answer_markup(view), tag("hr")) for view in views)))


def _wrap(body: Markup) -> str:
    return tag("div", tag("style", Markup(_STYLE)), body, class_="ragstone")


def _metric(row: MetricRow, *, has_change: bool) -> Markup:
    estimate = row.estimate
    mean = join(tag("b", format_mean(estimate)), " ", format_interval(estimate)) if estimate else Markup("no score")
    failed = f" + {row.n_failed:,} failed" if row.n_failed else ""
    absent = f" + {row.n_not_applicable:,} n.a." if row.n_not_applicable else ""
    return tag(
        "tr",
        tag("td", tag("b", row.title), tag("br"), tag("code", row.name)),
        tag("td", mean),
        tag("td", axis_chart(row)),
        tag("td", histogram_chart(row)),
        tag("td", f"{row.n_scored:,}{failed}{absent}"),
        change_cell(row.change) if has_change else None,
    )


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
