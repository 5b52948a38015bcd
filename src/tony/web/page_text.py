"""Format numbers, times and untrusted text for pages."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from markupsafe import Markup

from tony import control_characters
from tony.units import Unit, format_amount, format_bytes, format_duration, format_number, format_share

#: Shown for unknown values.
NOTHING = "–"


def escape_lines(text: str) -> str:
    """Return text of one or several lines, with control characters escaped."""
    return "\n".join(control_characters.escape(line.replace("\t", "    ")) for line in text.split("\n"))


def render_sentence(text: str) -> Markup:
    """Return sentences as HTML, with text in backticks as code."""
    parts = escape_lines(text).split("`")
    if len(parts) % 2 == 0:
        return Markup("{}").format("`".join(parts))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else Markup("{}").format(part)
        for number, part in enumerate(parts)
    )


def render_name(text: object) -> Markup:
    """Return an untrusted name as HTML, with its text direction isolated."""
    return Markup("<bdi>{}</bdi>").format(control_characters.escape(str(text)))


def render_moment(seconds: float | None) -> Markup:
    """Return a time (seconds since 1970) as HTML in UTC; the page's script converts it to the browser's time zone."""
    then = _to_datetime(seconds)
    if then is None:
        return Markup('<span class="nothing">{}</span>').format(NOTHING)
    return Markup('<time datetime="{}">{}</time>').format(
        then.strftime("%Y-%m-%dT%H:%M:%S.") + f"{then.microsecond // 1000:03d}Z", then.strftime("%Y-%m-%d %H:%M UTC")
    )


def render_instant(seconds: float | None) -> Markup:
    """Return the time of a line of output as HTML, to hundredths of a second, like `render_moment`."""
    then = _to_datetime(seconds)
    if then is None:
        return Markup('<span class="nothing">{}</span>').format(NOTHING)
    hundredths = then.microsecond // 10_000
    return Markup('<time data-exact datetime="{}">{}</time>').format(
        f"{then:%Y-%m-%dT%H:%M:%S}.{hundredths:02d}Z", f"{then:%m-%d %H:%M:%S}.{hundredths:02d}"
    )


def format_day(seconds: float | None) -> str:
    """Return the UTC date of a time, as date inputs need it; empty for None."""
    then = _to_datetime(seconds)
    return then.strftime("%Y-%m-%d") if then else ""


def format_seconds(seconds: float | None) -> str:
    """Format seconds: `3 m 05 s`."""
    return NOTHING if seconds is None else format_duration(max(0.0, seconds))


def format_elapsed(since: float | None, until: float | None) -> str:
    """Format the time between two moments; `NOTHING` if either is unknown."""
    return NOTHING if since is None or until is None else format_duration(max(0.0, until - since))


def render_running(since: float | None, now: float) -> Markup:
    """Return the time since a moment as HTML, which the page's script keeps up to date."""
    if since is None:
        return Markup(NOTHING)
    elapsed = max(0.0, now - since)
    return Markup('<span data-elapsed="{:.0f}">{}</span>').format(elapsed, format_duration(elapsed))


def format_bytes_or_nothing(count: float | None) -> str:
    """Format bytes: `1.5 GiB`."""
    return NOTHING if count is None else format_bytes(count)


def format_integer(number: int | None) -> str:
    """Format an integer with thousands separators."""
    return NOTHING if number is None else f"{number:,}".replace(",", "\u202f")


def format_hours(number: float | None) -> str:
    """Format GPU-hours and the like with three significant digits."""
    return NOTHING if number is None else format_number(number, format_integer)


def format_percent(share: float | None) -> str:
    """Format a share (0 to 1) as a percentage."""
    return NOTHING if share is None else format_share(share)


def format_metric(value: float | None, unit: Unit) -> str:
    """Format a metric with its unit."""
    return NOTHING if value is None or not math.isfinite(value) else format_amount(value, unit, whole=format_integer)


def format_counted(number: int, word: str) -> str:
    """Format a count with its noun: `1 task`, `2 tasks`."""
    return f"{format_integer(number)} {word}{'' if number == 1 else 's'}"


def build_anchor(text: str) -> str:
    """Return text as a valid HTML `id`."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", text)


def _to_datetime(seconds: float | None) -> datetime | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):  # out of the calendar's range, in a damaged job directory
        return None
