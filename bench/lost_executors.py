"""1 % of 1,000 and of 10,000 simulated executors are lost with their nodes: until all have the next session's spec.

Over TCP with TLS, token and acknowledgements; both ends are on this machine. The tenth of a second that a scheduler
takes at least to notice is in the figure; the time that a node takes to start a container is not. PyTorch stands for
frameworks that need a coordinator, a rank and a size. CPU is that of the application master alone.

When the next session runs, every executor that stayed says once more that its program of the first session has failed:
all of that is refused, and nothing comes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from bench.crowded_failure import play
from bench.harness import CPU, Figures, Line, Result, Unit, at_least, at_most, interleaved

TITLE = "Some of very many executors are lost"

_FRAMEWORK = "pytorch"
#: Tasks -> rounds, and the most seconds until the new spec is out.
_SIZES: Mapping[int, tuple[int, float]] = {1_000: (5, 2.0), 10_000: (2, 10.0)}
_QUICK: Mapping[int, tuple[int, float]] = {200: (1, 2.0)}


def measure(quick: bool) -> Result:
    """Every size."""
    lines: list[Line] = []
    for tasks, (count, bound) in (_QUICK if quick else _SIZES).items():
        rounds = interleaved({"tony": partial(_figures, tasks)}, count, discard=0)
        head = f"{tasks:,} executors, 1 % killed: "
        refused = rounds.line(head + "messages of the old session refused", "tony", "refused", unit=Unit.COUNT)
        sent = rounds.median("tony", "repeated")
        lines += [
            rounds.line(head + "→ all have the new spec", "tony", "told", target=at_most(bound)),
            rounds.line(head + "→ all starts are in the log", "tony", "started"),
            rounds.line(head + "executors kept", "tony", "kept", unit=Unit.COUNT),
            replace(refused, against="sent", reference=sent, ratio=(refused.value or 0) / sent, target=at_least(sent)),
        ]
    return Result(lines=tuple(lines), notes=("a refused message is counted by the machine, and changes nothing",))


def _figures(tasks: int) -> Figures:
    seen = play(_FRAMEWORK, tasks)
    return {
        "told": seen.told,
        "started": seen.started,
        "kept": seen.kept,
        "repeated": seen.repeated,
        "refused": seen.refused,
        CPU: seen.cpu,
    }
