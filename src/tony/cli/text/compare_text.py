"""The comparison of two jobs as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tony.cli.terminal.terminal_text import count_columns, cut
from tony.cli.text.metric_values import NOTHING, format_measure
from tony.control_characters import escape
from tony.jobs.comparison import ComparedJob, Comparison, SettingDifference, Value, format_change
from tony.model.metric_definitions import find_unit
from tony.units import Unit, format_number

#: Width of a value of a setting.
_MIN_VALUE_COLUMNS = 16
_MAX_VALUE_COLUMNS = 48

Line = tuple[str, str, str, str]


def format_comparison(found: Comparison, columns: int | None = None) -> list[str]:
    """Return the outcomes, the settings that differ, where the time went, and the metrics, as lines."""
    parts = [
        ("", _format_facts(found)),
        *([("time of tasks", _format_seconds_lines(found))] if _format_seconds_lines(found) else []),
        *([("metrics (median of the tasks' means; last step)", _format_measures(found))] if found.measures else []),
    ]
    head = ("", escape(found.a.report.job), escape(found.b.report.job), "")
    widths = _compute_widths([head, *(line for _, lines in parts for line in lines)], columns)
    text = _format_lines([head, *_format_facts(found)], widths)
    text += _format_settings(found, columns)
    for title, lines in parts[1:]:
        text += ["", f"{title}:", *_format_lines(lines, widths)]
    return text if columns is None else [cut(line, columns) for line in text]


def _compute_widths(lines: Sequence[Line], columns: int | None) -> list[int]:
    most = _MAX_VALUE_COLUMNS
    if columns is not None:
        most = max(_MIN_VALUE_COLUMNS, min(_MAX_VALUE_COLUMNS, (columns - 30) // 2))
    label = max(count_columns(line[0]) for line in lines)
    return [label, *(min(most, max(count_columns(line[place]) for line in lines)) for place in (1, 2))]


def _format_lines(lines: Sequence[Line], widths: Sequence[int]) -> list[str]:
    return ["  ".join([*map(_pad, line[:3], widths), line[3]]).rstrip() for line in lines]


def _pad(text: str, columns: int) -> str:
    text = cut(text, columns)
    return text + " " * (columns - count_columns(text))


def _format_facts(found: Comparison) -> list[Line]:
    def make_line(
        label: str, of: Callable[[ComparedJob], str], value: Callable[[ComparedJob], float | None] = lambda side: None
    ) -> Line:
        return label, escape(of(found.a)), escape(of(found.b)), format_change(value(found.a), value(found.b))

    return [
        make_line("name", lambda side: side.report.name),
        make_line("state", lambda side: side.report.state.value),
        make_line("took", lambda side: format_measure(side.took, Unit.SECONDS), lambda side: side.took),
        make_line("goodput", lambda side: format_measure(side.goodput, Unit.SHARE), lambda side: side.goodput),
        make_line("tasks", lambda side: str(len(side.report.tasks))),
        make_line("sessions", lambda side: str(side.report.session)),
        make_line("restarts", lambda side: str(side.restarts)),
        make_line("root cause", lambda side: side.root_cause or NOTHING),
        make_line("GPU-hours", lambda side: _format_hours(side.gpu_hours), lambda side: side.gpu_hours),
        make_line("GB-hours", lambda side: _format_hours(side.gb_hours), lambda side: side.gb_hours),
        make_line("core-hours", lambda side: _format_hours(side.core_hours), lambda side: side.core_hours),
    ]


def _format_seconds_lines(found: Comparison) -> list[Line]:
    """Return the goodput buckets that are not zero in both jobs."""
    return [
        (name, format_measure(left, Unit.SECONDS), format_measure(right, Unit.SECONDS), format_change(left, right))
        for name, left, right in (
            (second, found.a.seconds[second], found.b.seconds[second]) for second in found.a.seconds
        )
        if left or right
    ]


def _format_measures(found: Comparison) -> list[Line]:
    return [
        (
            escape(f"{measure.role} {measure.series}"),
            format_measure(measure.a, find_unit(measure.series)),
            format_measure(measure.b, find_unit(measure.series)),
            measure.change,
        )
        for measure in found.measures
    ]


def _format_settings(found: Comparison, columns: int | None) -> list[str]:
    """Return the settings that differ, each on its own lines: values may be long and carry their source."""
    if found.settings is None:
        return ["", "settings: unknown for one of the jobs"]
    same = f"{found.same} are the same"
    if not found.settings:
        return ["", f"settings: all {same}"]
    lines = ["", f"settings ({len(found.settings)} differ, {same}):"]
    alone = _find_roles_of_one(found)
    lines += [f"  roles.{escape(role)}: only in {which}" for role, which in alone.items()]
    for setting in found.settings:
        if _find_role(setting.key) not in alone:
            lines += _format_setting(setting, columns)
    return lines


def _find_role(key: str) -> str:
    parts = key.split(".")
    return parts[1] if parts[0] == "roles" and len(parts) > 2 else ""


def _find_roles_of_one(found: Comparison) -> dict[str, str]:
    """Return role -> which job has it, for the roles that only one of them has."""
    first, second = ({task.role for task in side.report.tasks} for side in (found.a, found.b))
    only = {"the first job": first - second, "the second job": second - first}
    return {role: which for which, roles in only.items() for role in sorted(roles)}


def _format_setting(each: SettingDifference, columns: int | None) -> list[str]:
    one = f"  {escape(each.key)}: {_format_value(each.a)} -> {_format_value(each.b)}"
    if columns is None or count_columns(one) <= columns:
        return [one]
    return [f"  {escape(each.key)}:", f"    {_format_value(each.a)}", f" -> {_format_value(each.b)}"]


def _format_value(value: Value | None) -> str:
    return "not set" if value is None else escape(f"{value[0]} ({value[1]})")


def _format_hours(hours: float | None) -> str:
    return NOTHING if hours is None else format_number(hours)
