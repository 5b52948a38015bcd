"""The figures of the failure zoo: how often the diagnosis is right, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tests.zoo.case_run import CaseResult

_MEASURES: tuple[tuple[str, Callable[[CaseResult], bool | None]], ...] = (
    ("root task", lambda result: result.is_root_right),
    ("class", lambda result: result.is_kind_right),
    ("decisive line", lambda result: result.is_line_right),
    ("retry", lambda result: result.is_retry_right),
    ("all of these", lambda result: not result.list_wrong()),
)


def format_figures(results: Sequence[CaseResult], title: str) -> list[str]:
    """Return the shares, precision and recall of each class, and the wrong ones, as lines of Markdown."""
    return [
        f"## {title}",
        "",
        f"{len(results)} jobs; the slowest took {max(result.seconds for result in results):.0f} s.",
        "",
        "| right | of judged | share |",
        "|---|---|---|",
        *(_format_share(name, [measure(result) for result in results]) for name, measure in _MEASURES),
        "",
        *_format_classes(results),
        "",
        *_format_wrong(results),
    ]


def _format_share(name: str, values: Iterable[bool | None]) -> str:
    judged = [value for value in values if value is not None]
    right = sum(judged)
    return f"| {name}: {right} | {len(judged)} | {100 * right / max(len(judged), 1):.1f} % |"


def _format_classes(results: Sequence[CaseResult]) -> list[str]:
    labels = [(_label(result), result.kind) for result in results]
    lines = ["| class | jobs | precision | recall |", "|---|---|---|---|"]
    for kind in sorted({label for label, _ in labels} | {found for _, found in labels if found}):
        both = sum(label == found == kind for label, found in labels)
        wanted = sum(label == kind for label, _ in labels)
        given = sum(found == kind for _, found in labels)
        lines.append(f"| {kind} | {wanted} | {_percent(both, given)} | {_percent(both, wanted)} |")
    return lines


def _label(result: CaseResult) -> str:
    """Return the class of a case; where several are right, the one that was found."""
    return result.kind if result.is_kind_right else result.case.classes[0]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _format_wrong(results: Sequence[CaseResult]) -> list[str]:
    wrong = [result for result in results if result.list_wrong()]
    if not wrong:
        return ["Nothing is wrong."]
    lines = [f"{len(wrong)} with something wrong:", ""]
    for result in sorted(wrong, key=lambda result: (result.case.file, result.case.name)):
        lines.append(f"- `{result.case.name}` ({result.case.file}): {'; '.join(result.list_wrong())[:400]}")
        if result.case.reason_wrong:
            lines.append(f"  - Why: {result.case.reason_wrong}")
    return lines
