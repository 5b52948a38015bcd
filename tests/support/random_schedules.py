"""Random schedules of whole jobs, by number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def play_block(seeds: range, folder: Path, check: Callable[[Path, int], None]) -> None:
    """Play each schedule in a folder of its own; a failure names its number."""
    for seed in seeds:
        (folder / str(seed)).mkdir()
        try:
            check(folder / str(seed), seed)
        except Exception as error:
            error.add_note(f"in schedule {seed}")
            raise
