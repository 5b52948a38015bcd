"""A hundred jobs of one task, submitted at once on one machine: all end right, and how long each waits.

Every submission is a `tony run -d` of its own, all started together. Waiting is from the moment at which a job was
recorded as submitted to the start of its program. Compared with as many bare interpreters, started together.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from bench.harness import CPU, CannotRunError, Figures, Result, Unit, at_most, interleaved
from bench.measured_processes import Workshop, interpreter, tony, wait_all
from tony.core.events import Started
from tony.history.event_log import read, segments
from tony.history.job_record import read_summary
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState

TITLE = "A hundred jobs submitted at once"


def measure(quick: bool) -> Result:
    """One round: it is long."""
    jobs = 3 if quick else 100
    with Workshop() as shop:
        program = [interpreter(), "-c", "print('done')"]
        shop.submit("--", *program)
        wait_all()
        rounds = interleaved(
            {"tony": lambda: _tony(shop, program, jobs), "bare": lambda: _together(shop, [program] * jobs)},
            1,
            discard=0,
        )
    return Result(
        lines=(
            rounds.line(f"{jobs} jobs, start → all have ended", "tony", "wall", against="bare"),
            rounds.line("jobs that did not end right", "tony", "wrong", unit=Unit.COUNT, target=at_most(0)),
            rounds.line("start → all are submitted", "tony", "submitted"),
            rounds.line("waiting, least", "tony", "least"),
            rounds.line("waiting, median", "tony", "median"),
            rounds.line("waiting, most", "tony", "most"),
            rounds.line("pairs started against their order", "tony", "unfair", unit=Unit.PERCENT),
        ),
        notes=("of two jobs that came more than a second apart, the later one should not start first",),
    )


def _tony(shop: Workshop, program: Sequence[str], jobs: int) -> Figures:
    home = Home(shop.path / "home")
    before = set(home.jobs.iterdir())
    figures = _together(shop, [tony("run", "-d", "--", *program)] * jobs)
    folders = [JobFolder(path) for path in home.jobs.iterdir() if path not in before]
    reports = [read_summary(folder) for folder in folders]
    right = sum(report is not None and report.state is JobState.SUCCEEDED for report in reports)
    times = sorted((_came(folder), _started(folder)) for folder in folders)
    waited = [began - came for came, began in times]
    return {
        **figures,
        "wrong": jobs - right,
        "submitted": max(came for came, _ in times) - figures["begin"],
        "least": min(waited),
        "median": statistics.median(waited),
        "most": max(waited),
        "unfair": _unfair(times),
    }


def _together(shop: Workshop, commands: Sequence[Sequence[str]]) -> Figures:
    """Starts all at once and waits for everything that comes of it."""
    wall, begin = time.time(), time.monotonic()
    output = (shop.path / "together.out").open("wb")
    with output:
        programs = [shop.start(command, stdout=output, stderr=output) for command in commands]
        cpu = wait_all(programs)
    if any(program.returncode for program in programs):
        raise CannotRunError(f"a command failed: {(shop.path / 'together.out').read_text()[-2000:]}")
    return {"wall": time.monotonic() - begin, "begin": wall, CPU: cpu}


def _came(folder: JobFolder) -> float:
    report = read_summary(folder)
    return (report.submitted if report else None) or 0.0


def _started(folder: JobFolder) -> float:
    return next((entry.wall for entry in read(segments(folder.path)) if isinstance(entry.event, Started)), 0.0)


def _unfair(times: Sequence[tuple[float, float]]) -> float:
    """Percent of the pairs that came more than a second apart and began in the other order."""
    pairs = [(one, other) for index, one in enumerate(times) for other in times[index + 1 :] if other[0] > one[0] + 1]
    turned = sum(other[1] < one[1] for one, other in pairs)
    return 100 * turned / len(pairs) if pairs else 0.0
