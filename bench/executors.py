"""One application master and 100, 1,000, 10,000 simulated executors over TCP, with TLS, token and acknowledgements.

Both ends are on this machine. PyTorch stands for frameworks that need a coordinator, a rank and a size: O(1) for each
task. TensorFlow is the other end: every task gets the addresses of all. (Linux gives a program no variable beyond 128
KiB, so real TF_CONFIGs end near 3,100 tasks; the wire does not care.) CPU is that of the application master alone.

It takes some minutes. Seen from outside: `told` is what a user waits for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from bench.crowded import Crowded, play
from bench.harness import CPU, Figures, Line, Result, Rounds, Target, Unit, at_most, at_most_times, interleaved
from tony.am.executor_connections import HEARTBEATS_PER_SECOND
from tony.model.job_spec import JobSpec

TITLE = "One application master and very many executors"

#: Tasks -> rounds, and seconds in steady state, several intervals of heartbeats.
_SIZES: Mapping[int, tuple[int, float]] = {100: (3, 10.0), 1_000: (3, 10.0), 10_000: (1, 20.0)}
_FRAMEWORKS = ("pytorch", "tensorflow")
_FEW, _LARGEST = min(_SIZES), max(_SIZES)
_TARGETS: Mapping[str, Target] = {"told": at_most(5.0), "steady": at_most(25.0), "rss": at_most(10**9)}
#: Costs per task must be flat; twice leaves room for a machine that others use. A list of all cannot be.
_FLAT = at_most_times(2.0)
_LINES = (
    ("told", "last registration → all have their spec", Unit.SECONDS),
    ("started", "last registration → all starts are in the log", Unit.SECONDS),
    ("steady", "CPU in steady state, of one core", Unit.PERCENT),
    ("rss", "memory, RSS", Unit.BYTES),
    ("pss", "memory, PSS", Unit.BYTES),
)
#: Per task.
_COSTS = (
    ("join", "connect, TLS, hello, register: CPU per 1,000 tasks"),
    ("start", "tell to start, log the start: CPU per 1,000 tasks"),
    ("end", "end, release, close: CPU per 1,000 tasks"),
)


def measure(quick: bool) -> Result:
    """Every size, with both frameworks in turn."""
    sizes = {_FEW: (1, 2.0)} if quick else _SIZES
    stories = {tasks: _rounds(tasks, *how) for tasks, how in sizes.items()}
    few = {_LARGEST: stories[_FEW]}
    lines = [line for tasks, rounds in stories.items() for line in _lines(tasks, rounds, few.get(tasks))]
    largest = max(sizes)
    sent = {name: f"{stories[largest].median(name, 'received'):,.0f}" for name in _FRAMEWORKS}
    notes = (
        "heartbeats that come while others still connect are not counted as a part of connecting",
        "steady state: every executor beats at the interval that it gets, together at most 2,000 a second",
        f"each executor of {largest:,} got {sent['tensorflow']} bytes with TensorFlow, {sent['pytorch']} with PyTorch",
    )
    return Result(lines=tuple(lines), notes=notes)


def _rounds(tasks: int, rounds: int, steady: float) -> Rounds:
    ways = {framework: partial(_figures, framework, tasks, steady) for framework in _FRAMEWORKS}
    return interleaved(ways, rounds, discard=0)


def _figures(framework: str, tasks: int, steady: float) -> Figures:
    seen: Crowded = play(framework, tasks, steady)
    thousands = tasks / 1000
    beats_per_second = tasks / max(JobSpec().heartbeat_interval, tasks / HEARTBEATS_PER_SECOND)
    beating = seen.beats * seen.steady / beats_per_second
    return {
        "told": seen.told,
        "started": seen.started,
        "steady": 100 * seen.steady,
        "rss": seen.memory["rss"],
        "pss": seen.memory["pss"],
        "received": seen.received,
        "join": (seen.joined_cpu - beating) / thousands,
        "start": seen.started_cpu / thousands,
        "end": seen.ended_cpu / thousands,
        CPU: seen.started_cpu,
    }


def _lines(tasks: int, rounds: Rounds, few: Rounds | None) -> list[Line]:
    """The lines of one size; what a task costs there against what it costs among few, if that is requested."""
    lines = []
    for framework in _FRAMEWORKS:
        head = f"{tasks:,} × {framework}: "
        for figure, title, unit in _LINES:
            target = _TARGETS.get(figure) if tasks == _LARGEST else None
            line = rounds.line(head + title, framework, figure, unit=unit, target=target)
            lines.append(line if figure in ("told", "started") else replace(line, cpu=None))
        for figure, title in _COSTS:
            line = replace(rounds.line(head + title, framework, figure), cpu=None)
            if few:
                reference = few.median(framework, figure)
                ratio = rounds.median(framework, figure) / reference
                flat = None if (framework, figure) == ("tensorflow", "start") else _FLAT
                line = replace(line, against=f"{_FEW} tasks", reference=reference, ratio=ratio, target=flat)
            lines.append(line)
    return lines
