"""`results.md`: the last result of every row, a section each."""

from __future__ import annotations

import fcntl
import os
import re
import time
from pathlib import Path

from bench import table
from bench.harness import Result

RESULTS = Path(__file__).with_name("results.md")


def keep(name: str, title: str, result: Result, *, machine: str, path: Path = RESULTS) -> None:
    """Replaces the section of one row, or adds it; the others stay as they are.

    Args:
        machine: what it was measured on, and under which load.
    """
    parts = [f"## {name}", f"{title}. {time.strftime('%Y-%m-%d')}, {machine}.", table.format_table(result.lines)]
    if result.notes:
        parts.append("\n".join(f"- {note}" for note in result.notes))
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # two rows may be measured at one time
        new = path.with_suffix(".new")
        new.write_text(replaced(path.read_text(encoding="utf-8"), name, "\n\n".join(parts)), encoding="utf-8")
        new.replace(path)
    finally:
        os.close(folder)


def replaced(text: str, name: str, section: str) -> str:
    """The page with the section `name` replaced, or added at its end."""
    head, *old = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    sections = {part.splitlines()[0].removeprefix("## "): part.strip("\n") for part in old}
    sections[name] = section.strip("\n")
    return "\n\n".join([head.strip("\n"), *sections.values()]) + "\n"
