"""Four tasks that print one line: from the start of `tony run` to the last program's line, and to the terminal.

Against four bare interpreters started together, the same binary on the same script, and against torchrun, its agent on
the system's Python with torch, its workers on the same binary as tony. All three on a terminal. Warm: the first round,
in which tony's cache is empty, is not counted. `end` is when the prompt is back; CPU is that of every process involved,
those that outlive the client as well.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from bench.harness import CPU, CannotRunError, Figures, Line, Result, at_most_times, interleaved
from bench.measured_processes import Workshop, interpreter, tony
from bench.terminal import watch

TITLE = "A job of four one-line programs, start to end"

_TASKS = 4
_PROGRAM = 'import time; print("at", time.time_ns(), flush=True)\n'
_NS = 1e-9
#: Where a system's package of torch would be.
SYSTEM_PYTHON = "/usr/bin/python3"
#: The two last options say "redirect nothing", as is the default: torch 1.13 takes its default for None on Python 3.11,
#: and fails; what is said about a rank that is not there leaves the others at nothing.
_TORCHRUN = (
    *(SYSTEM_PYTHON, "-m", "torch.distributed.run", "--nproc_per_node", str(_TASKS), "--no_python"),
    *("--redirects", "9:1", "--tee", "9:1"),
)


def measure(quick: bool) -> Result:
    """Interleaved runs of all three."""
    with Workshop() as shop:
        script = shop.path / "line.py"
        script.write_text(_PROGRAM, encoding="utf-8")
        program = [interpreter(), str(script)]
        ways = {
            "tony": lambda: _figures(shop, [tony("run", "-n", str(_TASKS), "--", *program)]),
            "bare": lambda: _figures(shop, [program] * _TASKS),
        }
        reason = no_torch()
        if not reason:
            ways["torchrun"] = lambda: _figures(shop, [[*_TORCHRUN, *program]])
        rounds = interleaved(ways, 1 if quick else 11, discard=0 if quick else 1)
    six = at_most_times(6)
    lines = [
        rounds.line("start → last program's line", "tony", "line", against="bare", target=six),
        rounds.line("start → that line on the terminal", "tony", "terminal", against="bare", target=six),
        rounds.line("start → prompt is back", "tony", "end", against="bare"),
    ]
    if reason:
        lines.append(Line.missing("against torchrun", reason))
    else:
        limit = at_most_times(0.4)
        lines += [
            rounds.line("start → last program's line", "tony", "line", against="torchrun", target=limit),
            rounds.line("start → that line on the terminal", "tony", "terminal", against="torchrun", target=limit),
            rounds.line("start → prompt is back", "tony", "end", against="torchrun"),
        ]
    return Result(lines=tuple(lines), notes=("programs of all three run on the very same interpreter binary",))


def _figures(shop: Workshop, commands: Sequence[Sequence[str]]) -> Figures:
    seen = watch(shop, commands)
    lines = seen.arrivals(r"\bat (\d{19})\b")
    if any(seen.codes) or len(lines) != _TASKS:
        raise CannotRunError(
            f"{' '.join(commands[0])}: {len(lines)} lines, exit codes {seen.codes}: {seen.text[-2000:]}"
        )
    return {
        "line": max(seen.after(int(text)) for text, _ in lines),
        "terminal": max(seen.after(at) for _, at in lines),
        "end": seen.end,
        CPU: seen.cpu,
    }


def no_torch() -> str:
    """Why torchrun cannot be measured; empty if it can."""
    try:
        code = subprocess.run([SYSTEM_PYTHON, "-c", "import torch.distributed.run"], capture_output=True).returncode
    except OSError as error:
        return f"{SYSTEM_PYTHON}: {error.strerror}"
    return f"{SYSTEM_PYTHON} has no torch" if code else ""
