"""`tony list` with a thousand finished jobs in the history, against an empty program.

The records are copies of a real one under other ids. First: without the home's index, as after it was deleted, so that
every record is read. Then with it, as always.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bench.harness import CannotRunError, Figures, Result, at_most, interleaved
from bench.measured_processes import Workshop, tony, wait_all
from tony.model.state_directory import Home

TITLE = "Listing a thousand jobs"


def measure(quick: bool) -> Result:
    """Interleaved runs of all."""
    jobs = 20 if quick else 1000
    with Workshop() as shop:
        home = Home(shop.path / "home")
        original = shop.submit("--", "true")
        wait_all()
        _copy(home, original, jobs - 1)
        if len(shop.ask("list", "--json")) != jobs:
            raise CannotRunError(f"tony list does not show {jobs} jobs")

        def first() -> Figures:
            home.index.unlink()
            return shop.run(tony("list")).figures

        rounds = interleaved(
            {
                "first": first,
                "list": lambda: shop.run(tony("list")).figures,
                "python -c pass": lambda: shop.run([sys.executable, "-c", "pass"]).figures,
            },
            1 if quick else 11,
        )
    bare = "python -c pass"
    return Result(
        lines=(
            rounds.line(f"tony list, {jobs:,} jobs", "list", "wall", against=bare, target=at_most(0.3)),
            rounds.line("the same without an index", "first", "wall", against=bare),
        ),
    )


def _copy(home: Home, original: Path, count: int) -> None:
    """Write copies of a job directory, each under an id of its own and submitted a second before the one before."""
    texts = {path.relative_to(original): path.read_text() for path in original.rglob("*") if path.is_file()}
    for number in range(count):
        moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(1_700_000_000 - number))
        name = f"local-{moment}-{number:06x}"
        for relative, text in texts.items():
            path = home.job(name).path / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace(original.name, name))
