"""`kill -9` of one of four workers on this machine: until all four programs of the next session have started.

Compared with torchrun `--max_restarts` on the same kill, its agent on the system's Python with torch, its workers on
tony's interpreter and script; once with its defaults, once polling ten times a second, as later versions do. tony
restarts without back-off, as for the first restart always. Every round is a job of its own.

Once more with programs that handle SIGTERM and sit in a collective: there the time that such a program is given
decides, `stop_grace` (15 s) with tony, 30 s with torchrun; `restart_grace` shortens it. These have no target.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from bench.failing_jobs import SETTLE, TASKS, LocalJob, Programs
from bench.harness import Figures, Line, Result, Unit, at_most, interleaved
from bench.measured_processes import Workshop, end_all
from bench.startup import SYSTEM_PYTHON, no_torch

TITLE = "kill -9 of one of four workers on this machine"

#: "Redirect nothing": see `bench/startup.py`.
_TORCHRUN = (
    *(SYSTEM_PYTHON, "-m", "torch.distributed.run", "--nproc_per_node", str(TASKS), "--max_restarts", "3"),
    *("--no_python", "--redirects", "9:1", "--tee", "9:1"),
)
_OFTEN = ("--monitor_interval", "0.1")
_LOOKS_OFTEN = "torchrun, looking every 0.1 s"
#: Seconds before a kill, all of an interval of 5 s in turn: when it comes within one decides how long torchrun takes.
_settles = itertools.cycle(SETTLE + second for second in (0, 2, 4, 1, 3))
_GRACE = 1
_WHAT = "kill -9 of a worker → all four of the next session run"
_STUCK = "programs stuck in a collective: the same"


def measure(quick: bool) -> Result:
    """Plain programs, then those that do not end when they are asked to."""
    reason = no_torch()
    with Workshop() as shop:
        plain = Programs(shop.path / "plain")
        ways: dict[str, Callable[[], Figures]] = {"tony": lambda: _tony(shop, plain)}
        if not reason:
            ways[_LOOKS_OFTEN] = lambda: _torchrun(shop, plain, *_OFTEN)
        if not reason and not quick:  # it looks after its workers every 5 s
            ways["torchrun"] = lambda: _torchrun(shop, plain)
        rounds = interleaved(ways, 1 if quick else 9, discard=0 if quick else 1)
        others: list[str | None] = [way for way in ("torchrun", _LOOKS_OFTEN) if way in ways]
        lines = [rounds.line(_WHAT, "tony", "wall", against=way, target=at_most(1.0)) for way in others or [None]]
        lines.append(rounds.line("executors that stayed, of four", "tony", "kept", unit=Unit.COUNT))
        lines += _stuck(shop, quick, reason)
    if reason:
        lines.append(Line.missing("against torchrun", reason))
    return Result(
        lines=tuple(lines),
        notes=(
            "torchrun as it is looks after its workers every 5 s (torch 1.13); later versions every 0.1 s",
            "stuck in a collective: stop_grace is 15 s, restart_grace where it is said; torchrun gives 30 s",
        ),
    )


def _stuck(shop: Workshop, quick: bool, reason: str) -> list[Line]:
    programs = Programs(shop.path / "stuck", stuck=True)
    short = f"restart_grace={_GRACE}s"
    ways: dict[str, Callable[[], Figures]] = {"short": lambda: _tony(shop, programs, short)}
    if not quick:  # these take as long as the graces are
        ways["tony"] = lambda: _tony(shop, programs)
        if not reason:
            ways[_LOOKS_OFTEN] = lambda: _torchrun(shop, programs, *_OFTEN)
    rounds = interleaved(ways, 1 if quick else 3, discard=0)
    against = _LOOKS_OFTEN if _LOOKS_OFTEN in ways else None
    titles = {"tony": _STUCK, "short": f"{_STUCK}, restart_grace = {_GRACE} s"}
    return [rounds.line(title, way, "wall", against=against) for way, title in titles.items() if way in ways]


def _tony(shop: Workshop, programs: Programs, *settings: str) -> Figures:
    with LocalJob(shop, programs, "max_restarts=3", "backoff=0s", *settings) as job:
        before = job.executors()
        wall = programs.all_again(*programs.kill_one())
        after = job.executors()
        return {"wall": wall, "kept": sum(pid == before[task] for task, pid in after.items())}


def _torchrun(shop: Workshop, programs: Programs, *words: str) -> Figures:
    programs.clean()
    command = [*_TORCHRUN, *words, *programs.command]
    settle = next(_settles)
    agent = shop.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        programs.wait(TASKS)
        time.sleep(settle)
        return {"wall": programs.all_again(*programs.kill_one())}
    finally:
        with suppress(ProcessLookupError):
            os.killpg(agent.pid, signal.SIGKILL)
        end_all()
        agent.wait()
