"""The table and the page of results."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import machine, results, table
from bench.harness import Line, Result, Unit, at_most, at_most_times

_LINE = Line(what="start", value=0.25, against="bare", reference=0.05, ratio=5.0, target=at_most_times(6))


def test_empty_columns_are_left_out() -> None:
    """And every row is as wide as the others."""
    lines = table.format_table([_LINE, Line.missing("torchrun", "no torch")]).splitlines()
    assert ["what", "tony", "compared with", "its value", "ratio", "target", "reached"] == _cells(lines[0])
    assert ["start", "250 ms", "bare", "50.0 ms", "5 ×", "≤ 6 ×", "yes"] == _cells(lines[2])
    assert ["torchrun", "not measured: no torch", "", "", "", "", ""] == _cells(lines[3])
    assert 1 == len({len(line) for line in lines})


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0042, Unit.SECONDS, "4.2 ms"),
        (0.42, Unit.SECONDS, "420 ms"),
        (4.2, Unit.SECONDS, "4.20 s"),
        (42.0, Unit.SECONDS, "42.0 s"),
        (64 << 20, Unit.BYTES, "64.0 MiB"),
        (50_000.4, Unit.PER_SECOND, "50,000/s"),
        (11.82, Unit.PERCENT, "11.8 %"),
        (1000, Unit.COUNT, "1,000"),
    ],
)
def test_numbers_are_written_as_people_read_them(value: float, unit: Unit, text: str) -> None:
    assert text == table.number(value, unit)


def test_a_missed_target_is_plain_to_see() -> None:
    line = Line(what="memory", unit=Unit.BYTES, value=64 << 20, target=at_most(60 << 20))
    assert ["memory", "64.0 MiB", "≤ 60.0 MiB", "NO"] == _cells(table.format_table([line]).splitlines()[2])


def test_a_section_is_replaced_in_its_place() -> None:
    """The others, and what stands above them, stay as they are."""
    page = "# Head\n\nText.\n\n## one\n\nold\n\n## two\n\nkept\n"
    assert "# Head\n\nText.\n\n## one\n\nnew\n\n## two\n\nkept\n" == results.replaced(page, "one", "## one\n\nnew\n")


def test_a_new_section_is_appended() -> None:
    assert "# Head\n\n## one\n\nkept\n\n## two\n\nnew\n" == results.replaced(
        "# Head\n\n## one\n\nkept\n", "two", "## two\n\nnew\n"
    )


def test_a_result_is_kept_with_its_machine(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text("# Head\n", encoding="utf-8")
    for _ in range(2):
        results.keep("startup", "A job", Result(lines=(_LINE,), notes=("a note",)), machine="2 cores", path=page)
    text = page.read_text(encoding="utf-8")
    assert 1 == text.count("## startup\n\nA job. ")
    assert ", 2 cores.\n\n| what " in text
    assert text.endswith("\n\n- a note\n")
    assert [page] == list(tmp_path.iterdir())


def test_the_page_of_results_is_in_form() -> None:
    text = results.RESULTS.read_text(encoding="utf-8")
    assert text.startswith("# ")
    for part in text.split("\n## ")[1:]:
        assert text == results.replaced(text, part.splitlines()[0], f"## {part}")


def test_the_machine_is_described_in_one_line() -> None:
    words = machine.size()
    assert "core" in words
    assert "GiB" in words
    assert "Python 3." in words
    assert 3 == len(machine.load().split())


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]
