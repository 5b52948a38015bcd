"""One job of 200 tasks of `sleep 1` on one machine, against 200 `sleep 1` started together."""

from __future__ import annotations

from bench.harness import Result, at_most, interleaved
from bench.measured_processes import Workshop, tony

TITLE = "A job of 200 tasks of one second"

#: Each task's reservation: 200 of them have to fit into one machine together.
_MEMORY = "32m"


def measure(quick: bool) -> Result:
    """Few rounds: they are long."""
    tasks = 5 if quick else 200
    with Workshop() as shop:
        together = f"for n in $(seq {tasks}); do sleep 1 & done; wait"
        rounds = interleaved(
            {
                "tony": lambda: (
                    shop.run(tony("run", "-n", str(tasks), "--memory", _MEMORY, "--", "sleep", "1")).figures
                ),
                "bare": lambda: shop.run(["sh", "-c", together]).figures,
            },
            1 if quick else 3,
            discard=0,
        )
    line = rounds.line(f"{tasks} tasks of sleep 1, start → prompt", "tony", "wall", against="bare", target=at_most(15))
    return Result(lines=(line,), notes=(f"memory of each task: {_MEMORY}",))
