"""A job of four tasks on a small Kubernetes, against what its users have: an Indexed Job, JobSet and Trainer.

The cluster is `tony mini start --kubernetes`: one node, all on this machine. tony's job is a `tony submit` that writes
into a pipe; the others are `kubectl apply`, then `kubectl logs --follow` of all pods, again and again until they have
started. All programs are the same line of Python in the same image: tony ships it, the others have it in their
manifest. The controllers of JobSet and Trainer are processes on this machine, with their webhooks: see
`bench.kubernetes_baselines`. Submissions that fill caches are not counted. CPU is that of the clients.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.failing_jobs import NS
from bench.harness import CannotRunError, Figures, Line, Result, Rounds, Unit, at_most, at_most_times, interleaved
from bench.kubernetes_jobs import TASKS, KubectlJob, find_kinds
from bench.measured_processes import Workshop
from bench.process_facts import resident
from bench.small_kubernetes import SCHEDULER_TABLE, CountingProxy, SmallKubernetes
from bench.submission import Submission, running, submit, write_job

TITLE = "A job of four tasks on a small Kubernetes"

_MIB = 1 << 20
_JOB = f"""\
name = "bench"
source = "."
command = ["python3", "program.py"]
{SCHEDULER_TABLE}
[roles.worker]
instances = {TASKS}
memory = "256m"
"""
ECHO = 'import time; print("at", time.time_ns(), flush=True)\n'
#: 20 lines a second.
_LINES = """\
import time
for _ in range(200):
    print("at", time.time_ns(), flush=True)
    time.sleep(0.05)
"""
_STAMP = re.compile(r"\| at (\d{19})\b")
_WAIT = 'import time; print("at", time.time_ns(), flush=True); time.sleep(600)\n'
_MODULES = {"am": "tony.am.container_main", "executor": "tony.executor.container_main"}
_PLAIN = "Indexed Job"


def measure(quick: bool) -> Result:
    """All ways in turn."""
    with Workshop() as shop, SmallKubernetes(shop) as cluster, ExitStack() as stack:
        runs = _Runs(shop, cluster)
        kinds, notes = find_kinds(cluster, stack)
        ways: dict[str, Callable[[], Figures]] = {"tony": runs.follow}
        ways |= {kind.title: partial(_follow, cluster, kind) for kind in kinds}
        rounds = interleaved(ways, 1 if quick else 9, discard=0 if quick else 2)
        lines = _lines(rounds, [kind.title for kind in kinds])
        lines += [*runs.delays(), runs.count_sent(), *runs.memory()]
    return Result(lines=tuple(lines), notes=tuple(notes))


def _follow(cluster: SmallKubernetes, kind: KubectlJob) -> Figures:
    return kind.follow(cluster, ECHO)


def _lines(rounds: Rounds, others: Sequence[str]) -> list[Line]:
    accepted = rounds.line("client's start → accepted", "tony", "accepted", target=at_most(0.4))
    terminal = rounds.line("→ last task's line on the client", "tony", "terminal", target=at_most(5.0))
    slowest = max(rounds.values("tony", "terminal")) / rounds.median("tony", "terminal")
    lines = [accepted, rounds.line("→ last task's line, by its own clock", "tony", "line"), terminal]
    lines.append(Line(what="the slowest of them, of the median", unit=Unit.PERCENT, value=100 * slowest))
    lines[-1] = replace(lines[-1], target=at_most(150))
    for other in others:
        target = at_most_times(2.0) if other == _PLAIN else None
        lines += [
            rounds.line("→ last task's line on the client", "tony", "terminal", against=other, target=target),
            rounds.line("→ last task's line, by its own clock", "tony", "line", against=other),
        ]
    return [*lines, rounds.line("last task's end → client's end", "tony", "exit")]


class _Runs:
    """Submissions of tony's to one cluster."""

    def __init__(self, shop: Workshop, cluster: SmallKubernetes) -> None:
        self._shop, self._cluster = shop, cluster
        self._echo = self._write_job("echo", ECHO)
        self._lines = self._write_job("lines", _LINES)
        self._wait = self._write_job("wait", _WAIT)

    def _write_job(self, name: str, program: str) -> Path:
        return write_job(self._shop.path / name, _JOB, program)

    def _submit(self, job: Path, *words: str, **environ: str) -> Submission:
        return submit(self._shop, job, *words, tasks=TASKS, environ={**self._cluster.environ, **environ})

    def follow(self) -> Figures:
        """Submit a job, and follow it to its end."""
        return self._submit(self._echo).figures()

    def delays(self) -> list[Line]:
        """Measure how long lines take from their program to the client."""
        submission = self._submit(self._lines)
        submission.end()
        arrivals = [(at, int(found[1])) for at, text in submission.lines if (found := _STAMP.search(text))]
        first, _ = arrivals[0]  # before, the client was not there
        delays = sorted((at - printed) * NS for at, printed in arrivals if printed > first)
        what = "a task's line → its line on the client"
        middle = Line(what=f"{what}, median", value=statistics.median(delays), target=at_most(0.1))
        return [middle, Line(what=f"{what}, 99th of 100", value=delays[int(0.99 * len(delays))])]

    def count_sent(self) -> Line:
        """Count what a client sends that submits a job again, and leaves."""
        with CountingProxy(self._cluster, self._shop.path) as proxy:
            self._submit(self._echo, "--detach", KUBECONFIG=str(proxy.kubeconfig)).end()
            what = "sent by a second submission, TLS included"
            return Line(what=what, unit=Unit.BYTES, value=proxy.sent, target=at_most(20_000))

    def memory(self) -> list[Line]:
        """Measure all processes of a job whose programs wait."""
        submission = self._submit(self._wait)
        try:
            submission.read(_STAMP.pattern, TASKS)
            time.sleep(2.0)
            kinds = {"client": [submission.program.pid], **{kind: running(name) for kind, name in _MODULES.items()}}
            sizes = {kind: max(map(resident, pids)) for kind, pids in kinds.items()}
        finally:
            submission.program.terminate()
            with suppress(CannotRunError):
                submission.end()
        return _memory_lines(sizes)


def _memory_lines(sizes: Mapping[str, float]) -> list[Line]:
    limits = {"client": 60, "am": 60, "executor": 30}
    titles = {"client": "client", "am": "application master", "executor": "executor, the largest"}
    return [
        Line(what=f"{titles[kind]}, RSS", unit=Unit.BYTES, value=sizes[kind], target=at_most(limits[kind] * _MIB))
        for kind in titles
    ]
