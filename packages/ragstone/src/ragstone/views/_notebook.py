"""Views in notebooks: HTML with inline styles only, without scripts and requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragstone.stats import Estimate
from ragstone.views._comparison import comparison_sections
from ragstone.views._html_answer import answer_markup
from ragstone.views._markup import Markup, join, tag
from ragstone.views._model import AnswerView, ComparedMetric, ComparisonView, MetricRow, ReportView, TrendView
from ragstone.views._sections import metrics_section, trend_section
from ragstone.views._svg import axis_chart, difference_chart, histogram_chart, system_chart, trend_chart
from ragstone.views._words import difference_span, format_interval, format_mean

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
.ragstone h4{margin:10px 0 2px}.ragstone .metrics b,.ragstone .question,.ragstone strong,.ragstone .box{display:block}.ragstone svg .box,.ragstone svg .whisker,.ragstone svg .median{fill:none;stroke:#8a8a8a}
.ragstone .text{white-space:pre-wrap}.ragstone .bad{color:#c4602f;font-weight:600}
"""


def notebook_report(view: ReportView) -> str:
    """Return the verdict and the metrics for a notebook."""
    more = ".worst(): the worst answers. .report('report.html'): the page. .plot(metric): a chart."
    body = join(
        *(tag("p", tag("b", statement.text) if n == 0 else statement.text) for n, statement in enumerate(view.verdict)),
        tag("p", "Next: ", view.next.text) if view.next else None,
        *(tag("p", notice.text, class_="soft") for notice in view.notices),
        metrics_section(view),
        None if view.trend is None else trend_section(view.trend),
        tag("p", more, class_="soft"),
    )
    return _wrap(body)


def notebook_comparison(view: ComparisonView) -> str:
    """Return the verdict, the means and the differences of systems for a notebook."""
    more = tag("p", ".write('comparison.html'): the page. .plot(metric): a chart.", class_="soft")
    return _wrap(join(*comparison_sections(view), more))


def notebook_answers(views: Sequence[AnswerView]) -> str:
    """Return answers with their evidence for a notebook."""
    return _wrap(join(*(tag("div", answer_markup(view), tag("hr")) for view in views)))


def _wrap(body: Markup) -> str:
    return tag("div", tag("style", Markup(_STYLE)), body, class_="ragstone")


class Chart:
    """A chart of one metric for notebooks, and its numbers for any plot library.

    Args:
        head: What it shows.
        drawings: SVG drawings by label.
        data: The numbers.
    """

    def __init__(self, head: Markup, drawings: Mapping[str, Markup], data: Mapping[str, Any]) -> None:
        self._head, self._drawings = head, drawings
        self.data = data
        """The numbers of the chart.

        Of one system: `metric`, `mean`, `low` and `high` of the interval, `n`, `axis` (both ends), `histogram` (counts
        in equal parts of the axis), and `trend` (the same of each part of the time, if it is known). Of a comparison:
        `metric`, `axis`,
        `systems` and `differences`.
        """

    def to_svg(self) -> str:
        """Return the drawings as one SVG document with its own styles."""
        parts, y, width = [tag("style", Markup(_STYLE.replace(".ragstone svg ", "")))], 0.0, 0.0
        for label, svg in self._drawings.items():
            parts.append(tag("text", label, x=0.0, y=y + 12, class_="tick"))
            parts.append(Markup(svg.replace("<svg", f'<svg y="{y + 18:g}"', 1)))
            size = [float(svg.partition(f' {side}="')[2].partition('"')[0]) for side in ("width", "height")]
            y, width = y + size[1] + 24, max(width, size[0])
        name = 'xmlns="http://www.w3.org/2000/svg"'
        return f'<svg {name} viewBox="0 0 {width:g} {y:g}" width="{width:g}" height="{y:g}">{join(*parts)}</svg>'

    def _repr_html_(self) -> str:
        rows = (join(tag("p", label, class_="soft"), svg) for label, svg in self._drawings.items())
        return _wrap(tag("div", self._head, *rows, class_="plot"))


def metric_chart(row: MetricRow, trend: TrendView | None = None) -> Chart:
    """Return mean, interval and distribution of a metric, and its means over time if they are known."""
    estimate = row.estimate
    mean = "no score" if estimate is None else f"{format_mean(estimate)} {format_interval(estimate)}"
    head = join(
        tag("p", tag("b", row.title), " ", tag("code", row.name), f" {mean}, {row.n_scored:,} scored"),
        tag("p", row.question, class_="soft"),
    )
    drawings = {"mean and interval": axis_chart(row)}
    if histogram := histogram_chart(row):
        drawings["scores"] = histogram
    over_time = [line for line in trend.rows if line.metric == row.name] if trend else []
    for line in over_time:
        drawings["over time"] = trend_chart(line, trend.releases if trend else ())
    points = [point for line in over_time for point in line.points]
    data = {"metric": row.name, **_numbers(estimate), "n": row.n_scored, "axis": row.axis, "histogram": row.histogram}
    times = [{"since": point.since, "until": point.until, **_numbers(point.estimate)} for point in points]
    return Chart(head, drawings, data | {"trend": times})


def compared_chart(view: ComparisonView, metric: ComparedMetric) -> Chart:
    """Return the scores of all systems on a metric, and their differences."""
    differences = [row for row in view.differences if row.metric == metric.name]
    head = tag("p", tag("b", metric.title), " ", tag("code", metric.name), " by system, and differences of systems")
    charts = {scores.system: system_chart(scores.estimate, metric.axis, scores.quantiles) for scores in metric.systems}
    span = difference_span(differences)
    charts |= {f"{row.system} - {row.other}: {row.size}": difference_chart(row, span) for row in differences}
    data = {
        "metric": metric.name,
        "axis": metric.axis,
        "systems": {scores.system: {**_numbers(scores.estimate), "n": scores.n_scored} for scores in metric.systems},
        "differences": [
            {"system": row.system, "other": row.other, "difference": row.difference, "low": row.low, "high": row.high}
            for row in differences
        ],
    }
    return Chart(head, {label: svg for label, svg in charts.items() if svg is not None}, data)


def _numbers(estimate: Estimate | None) -> dict[str, float | None]:
    names = {"mean": "value", "low": "low", "high": "high"}
    return {name: None if estimate is None else getattr(estimate, field) for name, field in names.items()}
