"""Generates the help pages of the heuristics: `docs/advice/`."""

from __future__ import annotations

from tony.advice.heuristic import Heuristic
from tony.advice.registry import built_in_heuristics
from tony.units import format_amount


def help_page(heuristic: type[Heuristic]) -> str:
    """Return the page of one heuristic as Markdown."""
    rows = [
        f"| `{threshold.name}` | {format_amount(threshold.value, threshold.measure)} | {threshold.meaning} |"
        for threshold in heuristic.thresholds
    ]
    lines = [
        f"# {heuristic.title}",
        "",
        f"`{heuristic.name}` in `tony advise JOB` ([advice](README.md)).",
        "",
        heuristic.about,
        "",
        "## Thresholds",
        "",
        "| threshold | value | meaning |",
        "|---|---|---|",
        *rows,
        "",
    ]
    return "\n".join(lines)


def help_pages() -> dict[str, str]:
    """Return file name -> text."""
    return {f"{heuristic.name}.md": help_page(heuristic) for heuristic in built_in_heuristics()}


def index_table() -> str:
    """Return the table of all heuristics with links to their pages."""
    rows = [f"| [`{heuristic.name}`]({heuristic.name}.md) | {heuristic.title} |" for heuristic in built_in_heuristics()]
    return "\n".join(["| recommendation | about |", "|---|---|", *rows])
