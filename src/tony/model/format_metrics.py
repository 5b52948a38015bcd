"""Numbers that were measured, in words: the same on terminals and on pages, but for how each writes what is large."""

from __future__ import annotations

import math
from collections.abc import Callable

from tony.dataclass import dataclass
from tony.model.metrics import Unit

#: From here on digits behind the point say nothing, up to where there are too many before it.
_WHOLE, _TOO_LONG = 1e4, 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberStyle:
    """How a surface writes them.

    Attributes:
        nothing: where nothing is known.
        size: a number of bytes.
        whole: a whole number.
        cores, degrees: what follows a number of those; where a column's heading says it, nothing.
    """

    nothing: str
    size: Callable[[float], str]
    whole: Callable[[int], str]
    cores: str
    degrees: str


def amount(value: float | None, unit: Unit, style: NumberStyle) -> str:
    """A number with its unit."""
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
    """A part of 1, per cent."""
    if 0 < value < 0.0005:
        return "< 0.1 %"
    return f"{100 * value:.1f} %" if 0 < value < 0.1 else f"{100 * value:.0f} %"
