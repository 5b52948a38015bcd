"""Formats metrics, the same way on terminals and on pages except for the style of large numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

from tony.dataclass import dataclass
from tony.model.metric_series import Unit

#: From here on numbers are rounded to whole ones.
_WHOLE = 1e4
#: From here on numbers have an exponent.
_TOO_LONG = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberStyle:
    """The number style of a surface.

    Attributes:
        nothing: text for a missing value.
        size: formats a number of bytes.
        whole: formats a whole number.
        cores, degrees: units appended to such numbers; empty where a column's heading has them.
    """

    nothing: str
    size: Callable[[float], str]
    whole: Callable[[int], str]
    cores: str
    degrees: str


def amount(value: float | None, unit: Unit, style: NumberStyle) -> str:
    """Return a number with its unit."""
    if value is None or not math.isfinite(value):
        return style.nothing
    match unit:
        case Unit.BYTES:
            return style.size(value)
        case Unit.BYTES_PER_SECOND:
            return f"{style.size(value)}/s"
        case Unit.SHARE:
            return share(value)
        case Unit.HERTZ:
            return f"{value / 1e9:.2f} GHz" if value >= 1e9 else f"{value / 1e6:.0f} MHz"
        case Unit.CELSIUS:
            return f"{value:.0f}{style.degrees}"
        case Unit.WATT:
            return f"{value:.0f} W"
        case Unit.PER_SECOND:
            return f"{value:.3g}/s"
        case Unit.COUNT if abs(value) < _WHOLE:
            return f"{value:.0f}" if value == int(value) else f"{value:.1f}"
    text = style.whole(round(value)) if _WHOLE <= abs(value) < _TOO_LONG else f"{value:.4g}"
    return text + style.cores if unit is Unit.CORES else text


def share(value: float) -> str:
    """Return a fraction as a percentage."""
    if 0 < value < 0.0005:
        return "< 0.1 %"
    return f"{100 * value:.1f} %" if 0 < value < 0.1 else f"{100 * value:.0f} %"
