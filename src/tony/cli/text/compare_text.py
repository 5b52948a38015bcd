"""The comparison of two jobs as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tony.cli.terminal.sparkline import NOTHING, number, unit_of
from tony.cli.terminal.terminal_text import cut, safe, width
from tony.jobs.comparison import ComparedJob, Comparison, SettingDifference, Value, change
from tony.units import Unit, format_duration, format_number

#: Width of a value of a setting.
_MIN_VALUE_COLUMNS = 16
_MAX_VALUE_COLUMNS = 48

Line = tuple[str, str, str, str]


def comparison_text(found: Comparison, columns: int | None = None) -> list[str]:
    """Return the outcomes, the settings that differ, where the time went, and the metrics, as lines."""
    parts = [
        ("", _facts(found)),
        *([("time of tasks", _seconds(found))] if _seconds(found) else []),
        *([("metrics (median of the tasks' means)", _measures(found))] if found.measures else []),
    ]
    head = ("", safe(found.a.report.job), safe(found.b.report.job), "")
    widths = _widths([head, *(line for _, lines in parts for line in lines)], columns)
    text = _lines([head, *_facts(found)], widths)
    text += _settings(found, columns)
    for title, lines in parts[1:]:
        text += ["", f"{title}:", *_lines(lines, widths)]
    return text if columns is None else [cut(line, columns) for line in text]


def _widths(lines: Sequence[Line], columns: int | None) -> list[int]:
    most = _MAX_VALUE_COLUMNS
    if columns is not None:
        most = max(_MIN_VALUE_COLUMNS, min(_MAX_VALUE_COLUMNS, (columns - 30) // 2))
    label = max(width(line[0]) for line in lines)
    return [label, *(min(most, max(width(line[place]) for line in lines)) for place in (1, 2))]


def _lines(lines: Sequence[Line], widths: Sequence[int]) -> list[str]:
    return ["  ".join([*map(_padded, line[:3], widths), line[3]]).rstrip() for line in lines]


def _padded(text: str, columns: int) -> str:
    text = cut(text, columns)
    return text + " " * (columns - width(text))


def _facts(found: Comparison) -> list[Line]:
    def line(
        label: str, of: Callable[[ComparedJob], str], value: Callable[[ComparedJob], float | None] = lambda side: None
    ) -> Line:
        return label, safe(of(found.a)), safe(of(found.b)), change(value(found.a), value(found.b))

    return [
        line("name", lambda side: side.report.name),
        line("state", lambda side: side.report.state.value),
        line("took", lambda side: _duration(side.took), lambda side: side.took),
        line("goodput", lambda side: number(side.goodput, Unit.SHARE), lambda side: side.goodput),
        line("tasks", lambda side: str(len(side.report.tasks))),
        line("sessions", lambda side: str(side.report.session)),
        line("restarts", lambda side: str(side.restarts)),
        line("root cause", lambda side: side.report.failure.cause if side.report.failure else NOTHING),
        line("GPU-hours", lambda side: _hours(side.gpu_hours), lambda side: side.gpu_hours),
        line("GB-hours", lambda side: _hours(side.gb_hours), lambda side: side.gb_hours),
        line("core-hours", lambda side: _hours(side.core_hours), lambda side: side.core_hours),
    ]


def _seconds(found: Comparison) -> list[Line]:
    """Return the goodput buckets that are not zero in both jobs."""
    return [
        (name, _duration(left), _duration(right), change(left, right))
        for name, left, right in (
            (second, found.a.seconds[second], found.b.seconds[second]) for second in found.a.seconds
        )
        if left or right
    ]


def _measures(found: Comparison) -> list[Line]:
    return [
        (
            safe(f"{measure.role} {measure.series}"),
            number(measure.a, unit_of(measure.series)),
            number(measure.b, unit_of(measure.series)),
            change(measure.a, measure.b),
        )
        for measure in found.measures
    ]


def _settings(found: Comparison, columns: int | None) -> list[str]:
    """Return the settings that differ, each on its own lines: values may be long and carry their source."""
    if found.settings is None:
        return ["", "settings: unknown for one of the jobs"]
    same = f"{found.same} are the same"
    if not found.settings:
        return ["", f"settings: all {same}"]
    lines = ["", f"settings ({len(found.settings)} differ, {same}):"]
    alone = _roles_of_one(found)
    lines += [f"  roles.{safe(role)}: only in {which}" for role, which in alone.items()]
    for setting in found.settings:
        if _role_of(setting.key) not in alone:
            lines += _setting(setting, columns)
    return lines


def _role_of(key: str) -> str:
    parts = key.split(".")
    return parts[1] if parts[0] == "roles" and len(parts) > 2 else ""


def _roles_of_one(found: Comparison) -> dict[str, str]:
    """Return role -> which job has it, for the roles that only one of them has."""
    first, second = ({task.role for task in side.report.tasks} for side in (found.a, found.b))
    only = {"the first job": first - second, "the second job": second - first}
    return {role: which for which, roles in only.items() for role in sorted(roles)}


def _setting(each: SettingDifference, columns: int | None) -> list[str]:
    one = f"  {safe(each.key)}: {_value(each.a)} -> {_value(each.b)}"
    if columns is None or width(one) <= columns:
        return [one]
    return [f"  {safe(each.key)}:", f"    {_value(each.a)}", f" -> {_value(each.b)}"]


def _value(value: Value | None) -> str:
    return "not set" if value is None else safe(f"{value[0]} ({value[1]})")


def _duration(seconds: float | None) -> str:
    return NOTHING if seconds is None else format_duration(max(0.0, seconds))


def _hours(hours: float | None) -> str:
    return NOTHING if hours is None else format_number(hours)
