"""The help pages, made of the heuristics' own tables: `docs/advice/`, and wherever else help is shown."""

from __future__ import annotations

from tony.advice.heuristic import Heuristic
from tony.advice.number_format import amount
from tony.advice.registry import ours


def help_page(heuristic: type[Heuristic]) -> str:
    """One heuristic's page, Markdown."""
    rows = [f"| `{each.name}` | {amount(each.value, each.measure)} | {each.meaning} |" for each in heuristic.thresholds]
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
    """Name of the file -> its text."""
    return {f"{heuristic.name}.md": help_page(heuristic) for heuristic in ours()}


def index_table() -> str:
    """All heuristics of this package with links to their pages."""
    rows = [f"| [`{each.name}`]({each.name}.md) | {each.title} |" for each in ours()]
    return "\n".join(["| recommendation | about |", "|---|---|", *rows])
