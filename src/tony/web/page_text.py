"""Numbers, times and other people's words as pages show them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from markupsafe import Markup

from tony.model import format_metrics
from tony.model.metrics import Unit
from tony.units import format_bytes, format_duration

#: Control characters (C0, DEL, C1), those that turn the direction of text, and halves of characters: a job's name must
#: not forge its neighbours. In text of several lines, newlines and tabs may stay.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
#: What pages show where nothing is known.
NOTHING = "–"


def plain(text: str) -> str:
    """Text on one line, with whatever would steer its surroundings written out: `\\n`, `\\u202e`."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def lines(text: str) -> str:
    """The same of text that may have several lines."""
    return "\n".join(plain(line.replace("\t", "    ")) for line in text.split("\n"))


def render_sentence(text: str) -> Markup:
    """Sentences for people as HTML: what stands between backticks is to be typed."""
    parts = lines(text).split("`")
    if len(parts) % 2 == 0:
        return Markup("{}").format("`".join(parts))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else Markup("{}").format(part)
        for number, part in enumerate(parts)
    )


def name(text: object) -> Markup:
    """Somebody else's word as HTML, whose direction ends with it."""
    return Markup("<bdi>{}</bdi>").format(plain(str(text)))


def moment(seconds: float | None) -> Markup:
    """A time of the clock, seconds since 1970: in UTC; the script puts it into the zone of whoever looks."""
    then = _datetime(seconds)
    if then is None:
        return Markup('<span class="nothing">{}</span>').format(NOTHING)
    return Markup('<time datetime="{}">{}</time>').format(
        then.strftime("%Y-%m-%dT%H:%M:%S.") + f"{then.microsecond // 1000:03d}Z", then.strftime("%Y-%m-%d %H:%M UTC")
    )


def day(seconds: float | None) -> str:
    """A time as its day in UTC, as fields for dates have it; empty for None."""
    then = _datetime(seconds)
    return then.strftime("%Y-%m-%d") if then else ""


def duration(seconds: float | None) -> str:
    """How long: `3 m 05 s`."""
    return NOTHING if seconds is None else format_duration(max(0.0, seconds))


def took(since: float | None, until: float | None) -> str:
    """How long it lasted; of what has no end or no beginning nothing is known."""
    return NOTHING if since is None or until is None else format_duration(max(0.0, until - since))


def size(count: float | None) -> str:
    """Bytes: `1.5 GiB`."""
    return NOTHING if count is None else format_bytes(count)


def count(number: int | None) -> str:
    """A whole number, in groups of three."""
    return NOTHING if number is None else f"{number:,}".replace(",", "\u202f")


def hours(number: float | None) -> str:
    """GPU-hours and the like: three digits that count."""
    if number is None:
        return NOTHING
    if number == 0:
        return "0"
    if number < 0.001:
        return "< 0.001"
    return f"{number:.3g}" if number < 100 else count(round(number))


def percent(share: float | None) -> str:
    """A share of 1."""
    return NOTHING if share is None else format_metrics.share(share)


def measured(value: float | None, unit: Unit) -> str:
    """A number that was measured, with its unit."""
    return format_metrics.amount(value, unit, _STYLE)


def plural(number: int, word: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count(number)} {word}{'' if number == 1 else 's'}"


def anchor(text: str) -> str:
    """What may stand in an `id`."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", text)


def _datetime(seconds: float | None) -> datetime | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):  # a time that no calendar has, in a record that somebody damaged
        return None


_STYLE = format_metrics.NumberStyle(nothing=NOTHING, size=size, whole=count, cores=" cores", degrees=" °C")
