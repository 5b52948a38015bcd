"""Which charts a page has, in which order, and what stands there without a script."""

from __future__ import annotations

from tony.model.metric_definitions import MetricGroup
from tony.web.pages.charts import MeasuredSeries, describe_series, format_newest, group_charts, select_overview

NAMES = frozenset(
    (
        "cpu",
        "rss",
        "oom-kills",
        "step",
        "total",
        "net-in",
        "gpu0.util",
        "gpu1.util",
        "user.acc",
        "user.val-loss",
        "user.loss",
    )
)


def test_charts_are_ordered_by_meaning() -> None:
    """The program's own come first, its loss before all; what is always 0 is apart."""
    groups = group_charts([MeasuredSeries(names=NAMES, nonzero=NAMES - {"oom-kills", "net-in"})])
    assert [group.title for group in groups] == [group.value for group in MetricGroup]
    assert [chart.name for chart in groups[0].charts] == ["user.loss", "user.val-loss", "user.acc"]
    assert [chart.name for chart in groups[1].charts] == ["step", "step-rate"]
    assert [chart.name for chart in groups[2].charts] == ["gpu-use", "gpu0.util", "gpu1.util"]
    assert [chart.name for chart in groups[4].charts] == ["rss"]
    assert [chart.name for chart in groups[4].empty] == ["oom-kills"]
    assert [chart.name for chart in groups[5].empty] == ["net-in"]


def test_the_overview_has_what_matters_to_training() -> None:
    """Loss, step rate, GPU, CPU and memory; of a job without GPUs and steps what is left."""
    assert [chart.name for chart in select_overview(NAMES, {})] == ["user.loss", "step-rate", "gpu-use", "cpu", "rss"]
    assert [chart.name for chart in select_overview(("cpu", "rss", "threads"), {})] == ["cpu", "rss"]


def test_the_newest_value_is_the_median_of_a_role() -> None:
    """Of rates it is the slowest task, for which the others wait."""
    newest = {
        "worker:0": {"cpu": 1.0, "step-rate": 3.0},
        "worker:1": {"cpu": 2.0, "step-rate": 2.5},
        "worker:2": {"cpu": 9.0},
        "ps:0": {"cpu": 4.0},
    }
    assert [(each.label, each.text) for each in format_newest("cpu", newest)] == [
        ("worker", "2 cores"),
        ("ps", "4 cores"),
    ]
    assert [(each.label, each.text) for each in format_newest("step-rate", newest)] == [("worker", "2.5/s")]


def test_a_name_that_is_no_metric_has_a_chart_without_a_unit() -> None:
    """The name comes with an address, and may be anything."""
    assert describe_series("<odd>").unit.value == ""
