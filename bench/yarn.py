"""A job of four tasks on a real, small Hadoop: from the client's start to the last line and to its end, and its memory.

The cluster is `tony mini start --nodes 2`, heartbeats at Hadoop's default of a second, once as it is and once with the
ResourceManager's asynchronous scheduling. Each run is a `tony submit` that writes into a pipe. The last task's end is
taken for the moment at which its program printed its only line, and ended. Submissions that fill the caches of client
and cluster are not counted; first ones have a client's home and a staging folder that are empty, on a cluster that has
run jobs. CPU is that of the client alone.

LinkedIn TonY is not measured here: its figures were recorded once, on such a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bench.harness import CannotRunError, Figures, Line, Result, Rounds, Target, Unit, at_most, interleaved
from bench.measured_processes import Workshop
from bench.process_facts import processor_time, resident
from bench.small_cluster import SmallCluster
from bench.submission import Submission, running, submit, write_job

TITLE = "A job of four tasks on a small Hadoop cluster"

_TASKS = 4
_NS = 1e-9
_KIB, _MIB = 1 << 10, 1 << 20
_ASYNCHRONOUS = "yarn.scheduler.capacity.schedule-asynchronously.enable=true"
_JOB = f"""\
name = "bench"
source = "."
command = ["python3", "program.py"]
[scheduler]
name = "yarn"
[roles.worker]
instances = {_TASKS}
memory = "256m"
"""
_ECHO = 'import time; print("at", time.time_ns(), flush=True)\n'
_WAIT = """\
import os, time
print("at", time.time_ns(), flush=True)
while not os.path.exists("{go}"):
    time.sleep(0.05)
"""
#: Counts what all sockets of a Python send. Of TLS the plain bytes; a submission that is not followed uses none.
_COUNTING = """\
import atexit, os, socket
sent = 0
def counted(name):
    plain = getattr(socket.socket, name)
    def send(self, data, *more):
        global sent
        result = plain(self, data, *more)
        sent += len(data) if result is None else result
        return result
    setattr(socket.socket, name, send)
for name in ("send", "sendall"):
    counted(name)
@atexit.register
def tell():
    with open(os.environ["BENCH_SENT"], "w") as file:
        file.write(str(sent))
"""
_LINKEDIN_TONY = "tony-core 0.4.7, recorded"
_HOW_RECORDED = (
    "LinkedIn TonY was recorded earlier and not measured here: tony-core 0.4.7 (the newest on Maven Central), its "
    "client, AM and executors on Hadoop 2.10.2 client jars against the 3.4.2 daemons; 4 workers of 256m, AM 512m, "
    "security off, trivial user program, heartbeats 1,000 ms, two cores shared by 5 daemons and 6 JVMs; times are "
    "medians of 6 runs after a warm-up, memory and upload (which counts files alone) of one"
)
#: Seconds, and bytes; at the end of the client the difference of two medians.
_RECORDED: Mapping[str, float] = {
    "terminal": 12.12,
    "accepted": 1.77,
    "exit": 2.3,
    "sent": 5.9e6,
    "client": 99e6,
    "am": 148e6,
    "executor": 103e6,
}
_MODULES = {"am": "tony.am.container_main", "executor": "tony.executor.container_main"}


def measure(quick: bool) -> Result:
    """One cluster after the other."""
    lines: list[Line] = []
    with Workshop() as shop:
        with SmallCluster(shop) as cluster:
            runs = _Runs(shop, cluster)
            rounds = runs.series(1 if quick else 12, discard=0 if quick else 2)
            lines += _lines(rounds, "", at_most(1.8), worst=3.0)
            lines += runs.first_ones(1 if quick else 6)
            lines.append(runs.uploaded())
            lines += runs.idle(1.0 if quick else 20.0)
        if not quick:
            with SmallCluster(shop, settings=[_ASYNCHRONOUS]) as cluster:
                rounds = _Runs(shop, cluster).series(12, discard=2)
                lines += _lines(rounds, "asynchronous scheduling: ", at_most(1.0), worst=None)
    return Result(
        lines=tuple(lines),
        notes=(
            _HOW_RECORDED,
            "security is on for tony: TLS and tokens between client, application master and executors",
            "CPU is that of the client alone",
            "sent by a second submission: everything that its sockets sent, protocols included",
        ),
    )


class _Runs:
    """Submissions to one cluster."""

    def __init__(self, shop: Workshop, cluster: SmallCluster) -> None:
        self._shop = shop
        self._environ = {**shop.environ, "HADOOP_CONF_DIR": str(cluster.conf)}
        self._go = shop.path / "go"
        self._echo = self._job("echo", _ECHO)
        self._wait = self._job("wait", _WAIT.format(go=self._go))

    def _job(self, name: str, program: str) -> Path:
        return write_job(self._shop.path / name, _JOB, program)

    def _submit(self, job: Path, *words: str, **environ: str) -> Submission:
        return submit(self._shop, job, *words, tasks=_TASKS, environ={**self._environ, **environ})

    def series(self, count: int, *, discard: int) -> Rounds:
        """Second and later submissions, if some are discarded."""
        return interleaved({"tony": lambda: self._submit(self._echo).figures()}, count, discard=discard)

    def first_ones(self, count: int) -> list[Line]:
        """The first submissions of a user: nothing is cached yet."""
        samples = [self._first(number) for number in range(count)]
        rounds = Rounds({"tony": samples})
        return [rounds.line("first submission: → last line on the client", "tony", "terminal", target=at_most(3.0))]

    def _first(self, number: int) -> Figures:
        home = self._shop.path / f"home-{number}"
        staging = f"scheduler.yarn.staging=first-{number}"
        return self._submit(self._echo, "--set", staging, TONY_HOME=str(home)).figures()

    def uploaded(self) -> Line:
        """What a client sends that submits a job for the second time, and leaves."""
        folder = self._shop.path / "counting"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_COUNTING, encoding="utf-8")
        told = folder / "sent"
        self._submit(self._echo, "--detach", PYTHONPATH=str(folder), BENCH_SENT=str(told)).end()
        sent = int(told.read_text())
        line = Line(what="sent by a second submission", unit=Unit.BYTES, value=sent, target=at_most(20_000))
        return _compared(line, "sent")

    def idle(self, seconds: float) -> list[Line]:
        """Memory of all processes of a job whose programs wait, and what they use while they do."""
        self._go.unlink(missing_ok=True)
        submission = self._submit(self._wait)
        try:
            submission.read(r"\| at \d{19}\b", _TASKS)
            time.sleep(min(2.0, seconds))
            kinds = {"client": [submission.program.pid], **{kind: running(name) for kind, name in _MODULES.items()}}
            before = {kind: [processor_time(pid) for pid in pids] for kind, pids in kinds.items()}
            begin = time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - begin
            shares = {
                kind: max(
                    100 * (processor_time(pid) - used) / took for pid, used in zip(pids, before[kind], strict=True)
                )
                for kind, pids in kinds.items()
            }
            memory = {kind: max(map(resident, pids)) for kind, pids in kinds.items()}
        finally:
            self._go.touch()
            with suppress(CannotRunError):
                submission.end()
        return _memory(memory) + _shares(shares)


def _lines(rounds: Rounds, head: str, target: Target, *, worst: float | None) -> list[Line]:
    """Of one series."""
    accepted = rounds.line(f"{head}client's start → accepted", "tony", "accepted", target=at_most(0.4))
    terminal = rounds.line(f"{head}→ last task's line on the client", "tony", "terminal", target=target)
    lines = [
        _compared(accepted, "accepted"),
        rounds.line(f"{head}→ last task's line, by its own clock", "tony", "line"),
        _compared(terminal, "terminal"),
    ]
    if worst is not None:
        slowest = max(rounds.values("tony", "terminal"))
        lines.append(Line(what=f"{head}the same, slowest", value=slowest, target=at_most(worst)))
    ended = rounds.line(f"{head}last task's end → client's end", "tony", "exit", target=at_most(0.5))
    return [*lines, _compared(ended, "exit"), rounds.line(f"{head}→ client's end", "tony", "end")]


def _memory(sizes: Mapping[str, float]) -> list[Line]:
    limits = {"client": 60, "am": 60, "executor": 30}
    titles = {"client": "client", "am": "application master", "executor": "executor, the largest"}
    return [
        _compared(
            Line(what=f"{titles[kind]}, RSS", unit=Unit.BYTES, value=sizes[kind], target=at_most(limits[kind] * _MIB)),
            kind,
        )
        for kind in titles
    ]


def _shares(shares: Mapping[str, float]) -> list[Line]:
    titles = {"am": "application master", "executor": "executor, the busiest"}
    return [
        Line(what=f"{title}: CPU while programs wait", unit=Unit.PERCENT, value=shares[kind], target=at_most(1.0))
        for kind, title in titles.items()
    ]


def _compared(line: Line, figure: str) -> Line:
    """The line, compared with LinkedIn TonY's figure."""
    assert line.value is not None
    reference = _RECORDED[figure]
    return replace(line, against=_LINKEDIN_TONY, reference=reference, ratio=line.value / reference)
