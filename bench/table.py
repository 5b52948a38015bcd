"""Lines as a Markdown table: the same text for the terminal and for `results.md`."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten

from bench.harness import Line, Target, Unit

_HEADS = ("what", "tony", "from – to", "CPU", "compared with", "its value", "its CPU", "ratio", "target", "reached")
_KIB, _MIB = 1 << 10, 1 << 20
#: Characters of a reason that stand in the table.
_REASON = 100


def format_table(lines: Sequence[Line]) -> str:
    """The table, without the columns in which nothing stands."""
    rows = [_cells(line) for line in lines]
    used = [n for n in range(len(_HEADS)) if n == 0 or any(row[n] for row in rows)]
    kept = [[row[n] for n in used] for row in [_HEADS, *rows]]
    widths = [max(len(row[n]) for row in kept) for n in range(len(used))]
    text = [_row(row, widths) for row in kept]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def number(value: float, unit: Unit) -> str:
    """A value as people read it."""
    match unit:
        case Unit.SECONDS:
            return _seconds(value)
        case Unit.BYTES:
            return f"{value / _MIB:,.1f} MiB" if value >= _MIB / 10 else f"{value / _KIB:,.1f} KiB"
        case Unit.PER_SECOND:
            return f"{value:,.0f}/s"
        case Unit.PERCENT:
            return f"{value:.1f} %"
        case Unit.COUNT:
            return f"{value:,.0f}"


def _seconds(value: float) -> str:
    if value >= 10:
        return f"{value:.1f} s"
    return f"{value:.2f} s" if value >= 0.9995 else f"{1000 * value:.{0 if value >= 0.1 else 1}f} ms"


def _cells(line: Line) -> list[str]:
    if line.value is None:
        return [
            line.what,
            f"not measured: {shorten(line.reason, _REASON, placeholder=' ...')}",
            *[""] * (len(_HEADS) - 2),
        ]
    spread = ""
    if line.low is not None and line.high is not None and line.low != line.high:
        spread = f"{number(line.low, line.unit)} – {number(line.high, line.unit)}"
    met = line.met
    return [
        line.what,
        number(line.value, line.unit),
        spread,
        "" if line.cpu is None else _seconds(line.cpu),
        line.against,
        "" if line.reference is None else number(line.reference, line.unit),
        "" if line.reference_cpu is None else _seconds(line.reference_cpu),
        "" if line.ratio is None else f"{line.ratio:.3g} ×",
        _target(line.target, line.unit) if line.target else "",
        "" if met is None else "yes" if met else "NO",
    ]


def _target(target: Target, unit: Unit) -> str:
    sign = "≥" if target.least else "≤"
    return f"{sign} {target.bound:g} ×" if target.ratio else f"{sign} {number(target.bound, unit)}"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
