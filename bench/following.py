"""A task's line on its way to a follower: from the program's clock to the terminal.

The program prints the time, twenty times a second. Followers: `tony run`, which shows its table as well; `tony logs -f`
of a job that runs already; and `tail -f` of a file that a bare program writes. Lines printed before the follower was
there are left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.harness import CPU, CannotRunError, Figures, Result, at_most, interleaved
from bench.measured_processes import Workshop, interpreter, tony
from bench.terminal import Seen, watch

TITLE = "A task's line on its way to a follower's terminal"

_NS = 1e-9
_PROGRAM = """\
import sys, time
for number in range(int(sys.argv[1])):
    print("at", time.time_ns(), flush=True)
    time.sleep(0.05)
"""
#: The shell waits for the program: one without a waiting parent has not ended, for `tail`.
_TAIL = 'file=$1; shift; : >"$file"; "$@" >"$file" & tail -f -n +1 --pid=$! "$file" & wait'
_LINE = r"\bat (\d{19})\b"


def measure(quick: bool) -> Result:
    """Interleaved runs of all three."""
    count = 60 if quick else 100
    with Workshop() as shop:
        script = shop.path / "lines.py"
        script.write_text(_PROGRAM, encoding="utf-8")
        program = [interpreter(), str(script), str(count)]
        rounds = interleaved(
            {
                "run": lambda: _run(shop, program),
                "logs": lambda: _logs(shop, program),
                "tail -f": lambda: _tail(shop, program),
            },
            1 if quick else 5,
            discard=0 if quick else 1,
        )
    lines = []
    for way, title in (("run", "tony run"), ("logs", "tony logs -f")):
        lines.append(rounds.line(f"{title}, median", way, "median", against="tail -f", target=at_most(0.100)))
        lines.append(rounds.line(f"{title}, 95th of 100", way, "late", against="tail -f"))
    return Result(lines=tuple(lines), notes=(f"{count} lines in each run, 20 a second",))


def _run(shop: Workshop, program: Sequence[str]) -> Figures:
    return _figures(watch(shop, [tony("run", "--", *program)]))


def _logs(shop: Workshop, program: Sequence[str]) -> Figures:
    job = shop.submit("--", *program)
    return _figures(watch(shop, [tony("logs", "-f", job.name)]))


def _tail(shop: Workshop, program: Sequence[str]) -> Figures:
    return _figures(watch(shop, [["sh", "-c", _TAIL, "sh", str(shop.path / "lines.out"), *program]]))


def _figures(seen: Seen) -> Figures:
    arrivals = [(int(text), at) for text, at in seen.arrivals(_LINE)]
    first = seen.marks[0][1] if seen.marks else 0
    delays = sorted((at - printed) * _NS for printed, at in arrivals if printed > first)
    if any(seen.codes) or len(delays) < 2:
        raise CannotRunError(f"{len(delays)} lines, exit codes {seen.codes}: {seen.text[-2000:]}")
    return {"median": statistics.median(delays), "late": delays[int(0.95 * len(delays))], CPU: seen.cpu}
