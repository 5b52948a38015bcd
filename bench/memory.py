"""Memory of every process of tony, while four programs of a job wait: RSS, and PSS, in which shared pages are divided.

The client is on a terminal, with its table. Programs wait for a file; one of them, a bare interpreter, is what others
are compared with. Whatever else the job has started is a helper, such as the executors' watchdogs. Resting state: a
second after the last program printed its line.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.harness import CannotRunError, Figures, Line, Result, Rounds, Unit, at_most, interleaved
from bench.measured_processes import Workshop, interpreter, tony
from bench.terminal import Seen, watch
from tony.linux.process import descendants

TITLE = "Memory of a waiting job of four tasks"

_TASKS = 4
_MIB = 1 << 20
_REST = 1.0
_PROGRAM = """\
import os, sys, time
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""
#: Kind of process -> what it is called in the table.
_KINDS = {"client": "client, with its table", "am": "application master", "executor": "executor", "helper": "helper"}


@dataclass(slots=True)
class _Look:
    """Waits until all programs have printed, measures, lets them end."""

    shop: Workshop
    go: Path
    figures: dict[str, float] = field(default_factory=dict)

    def __call__(self, seen: Seen) -> None:
        if not self.figures and len(re.findall("ready", seen.text)) == _TASKS:
            time.sleep(_REST)
            self.figures.update(_measured(self.shop))
            self.go.touch()


def measure(quick: bool) -> Result:
    """A few jobs, one after the other."""
    with Workshop() as shop:
        script = shop.path / "wait.py"
        script.write_text(_PROGRAM, encoding="utf-8")
        rounds = interleaved({"tony": lambda: _job(shop, script)}, 1 if quick else 5, discard=0)
    helpers = rounds.median("tony", "helpers")
    return Result(
        lines=tuple(_lines(rounds)),
        notes=(
            f"processes of tony: client, application master, {_TASKS} executors, {helpers:.0f} helpers",
            "of several of a kind the line shows the largest",
            "compared with the user's program: a bare interpreter that waits",
        ),
    )


def _lines(rounds: Rounds) -> list[Line]:
    limits = {"am": at_most(60 * _MIB), "executor": at_most(30 * _MIB)}
    lines = []
    for kind, title in _KINDS.items():
        for how in ("rss", "pss"):
            if f"{kind}-{how}" not in rounds.samples["tony"][0]:
                continue
            line = rounds.line(
                f"{title}, {how.upper()}",
                "tony",
                f"{kind}-{how}",
                against="tony",
                against_figure=f"program-{how}",
                unit=Unit.BYTES,
                target=limits.get(kind) if how == "rss" else None,
            )
            lines.append(replace(line, against="program"))
    lines.append(rounds.line("all of tony together, PSS", "tony", "all-pss", unit=Unit.BYTES))
    return lines


def _job(shop: Workshop, script: Path) -> Figures:
    go = shop.path / "go"
    go.unlink(missing_ok=True)
    look = _Look(shop, go)
    command = tony("run", "-n", str(_TASKS), "--", interpreter(), str(script), str(go))
    seen = watch(shop, [command], each=look)
    if any(seen.codes) or not look.figures:
        raise CannotRunError(f"the job ended with {seen.codes}: {seen.text[-2000:]}")
    return look.figures


def _measured(shop: Workshop) -> Figures:
    """Kind-how -> bytes."""
    kinds = _kinds(shop)
    figures: dict[str, float] = {"helpers": sum(kind == "helper" for kind in kinds.values())}
    for pid, kind in kinds.items():
        for how, size in memory_of(pid).items():
            figures[f"{kind}-{how}"] = max(figures.get(f"{kind}-{how}", 0), size)
            if kind != "program":
                figures[f"all-{how}"] = figures.get(f"all-{how}", 0) + size
    return figures


def _kinds(shop: Workshop) -> Mapping[int, str]:
    """Every process of the job, and what it is: as the job's own report says; what it does not name is a helper."""
    report = shop.ask("status", "--json", "last")
    kinds = {report["am"]["pid"]: "am"}
    for task in report["tasks"]:
        kinds |= {task["executor_pid"]: "executor", task["pid"]: "program"}
    for pid in descendants(os.getpid()):
        kinds.setdefault(pid, "client" if _on_terminal(pid) else "helper")
    return kinds


def _on_terminal(pid: int) -> bool:
    return os.readlink(f"/proc/{pid}/fd/1").startswith("/dev/pts/")


def memory_of(pid: int) -> Mapping[str, int]:
    """`rss` and `pss` of a process, in bytes."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = {
        name.lower(): int(size) * 1024 for name, size in re.findall(r"^(Rss|Pss):\s+(\d+) kB", rollup, re.MULTILINE)
    }
    if len(found) != 2:
        raise CannotRunError(f"/proc/{pid}/smaps_rollup tells nothing")
    return found
