"""What measuring a program costs the executor, and what telling how far it is costs a program.

A tree of eight processes with eight threads each is looked at again and again, as an executor does every five seconds,
in a thread of its own each time: the share of a core is that of one such look in five seconds. PSS, which is most of it
and which an executor asks for more seldom, is always included. Then `tony.progress` in a loop, each call sent; and
calls that are not sent, since too many were sent just before.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tony
from bench.harness import Figures, Line, Result, Rounds, Unit, at_most, interleaved
from bench.measured_processes import interpreter
from tony.linux import process
from tony.linux.process_usage import ProcessUsage
from tony.linux.thread_pools import to_thread

TITLE = "Measuring a program of eight processes"

_PROCESSES, _THREADS = 8, 8
#: Seconds between two looks, as by default.
_INTERVAL = 5.0
_PROGRAM = f"""\
import os, threading, time
for _ in range({_PROCESSES - 1}):
    if os.fork() == 0:
        break
for _ in range({_THREADS - 1}):
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
data = bytearray(32 << 20)
os.write(1, b".")
time.sleep(3600)
"""
#: Calls in turns, each with room for it; says microseconds for a call that is sent, and for one that is not.
_CALLS_PROGRAM = """\
import sys, time
import tony
count, reporter = int(sys.argv[1]), tony.reporting._reporter
def each(allowed):
    total = 0.0
    for step in range(count):
        reporter.allowed, reporter.at = allowed, time.monotonic()
        began = time.perf_counter()
        tony.progress(step, 100000, loss=0.25, accuracy=0.75)
        total += time.perf_counter() - began
    return 1e6 * total / count
each(4.0)
print(each(4.0), each(-1e9))
"""


def measure(quick: bool) -> Result:
    """Looks and calls, in turns."""
    looks, calls = (20, 200) if quick else (400, 20_000)
    ways = {"looks": lambda: _looks(looks), "calls": lambda: _calls(calls)}
    with _tree():
        rounds = interleaved(ways, 1 if quick else 5, discard=0)
    return Result(
        lines=_lines(rounds),
        notes=(f"{_PROCESSES} processes with {_THREADS} threads each, every {_INTERVAL:g} s",),
    )


def _lines(rounds: Rounds) -> tuple[Line, ...]:
    return (
        rounds.line("measuring, of a core", "looks", "share", unit=Unit.PERCENT, target=at_most(0.5)),
        rounds.line("one look, processor time", "looks", "look", unit=Unit.SECONDS),
        rounds.line("tony.progress, microseconds a call", "calls", "sent", unit=Unit.COUNT, target=at_most(20)),
        rounds.line("the same, not sent", "calls", "held", unit=Unit.COUNT, target=at_most(20)),
    )


@contextmanager
def _tree() -> Iterator[None]:
    """The program."""
    root = subprocess.Popen([interpreter(), "-c", _PROGRAM], stdout=subprocess.PIPE, start_new_session=True)
    assert root.stdout
    try:
        for _ in range(_PROCESSES):
            root.stdout.read(1)
        yield
    finally:
        os.killpg(root.pid, signal.SIGKILL)
        root.stdout.close()
        root.wait()


def _looks(count: int) -> Figures:
    """As an executor does it, but for the pauses between two looks. The program is the only child that we have."""
    used = ProcessUsage(leisure=0)

    async def look() -> None:
        for _ in range(count):
            await to_thread(lambda: used.measure(process.list_below()))

    asyncio.run(look())
    before = time.process_time()
    asyncio.run(look())
    each = (time.process_time() - before) / count
    return {"share": 100 * each / _INTERVAL, "look": each}


def _calls(count: int) -> Figures:
    """A program that reports, to a socket that is only read."""
    hearer = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    name = f"tony-bench-{os.getpid()}"
    hearer.bind(f"\0{name}")
    library = Path(tony.__file__).parent / "python_hooks/library"
    reporter = subprocess.Popen(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(library)!r})\n{_CALLS_PROGRAM}",
            str(count),
        ],
        env={**os.environ, "TONY_PROGRESS": f"@{name}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    hearer.settimeout(0.01)
    while reporter.poll() is None:
        try:
            hearer.recv(4096)
        except TimeoutError:
            continue
    hearer.close()
    assert reporter.stdout
    sent, held = map(float, reporter.stdout.read().split())
    reporter.stdout.close()
    return {"sent": sent, "held": held}
