"""A program that prints 1 GB at 100 MB/s: what the executor spends on it, and what is lost.

The executor's CPU is read from /proc right before the first and right after the last piece, with the program idle; its
helpers' as well, should it have any. Compared with `cat`, between the same program and a file. Every byte on disk is
compared with what was printed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.harness import CannotRunError, Figures, Line, Result, Rounds, Unit, at_most, interleaved
from bench.measured_processes import TIMEOUT_SECONDS, Workshop, interpreter, wait_all
from tony.linux.process import descendants

TITLE = "A gigabyte of output on its way to disk"

_MB = 1_000_000
_PIECE = 1_000_000
#: Three secrets of usual length, none of which is printed.
_SECRETS = tuple(
    word
    for name in ("HF_TOKEN", "WANDB_API_KEY", "DB_PASSWORD")
    for word in ("--set", f"env.{name}={name.lower() * 3}-1")
)
_FILES = ("begin", "go", "took", "end", "quit")
_TICKS = os.sysconf("SC_CLK_TCK")
#: A hundred pieces of a megabyte a second, all different. It makes the files `begin` and `end`, and waits for `go` and
#: `quit`.
_PROGRAM = """\
import os, sys, time
folder, count = sys.argv[1], int(sys.argv[2])
def meet(said, wanted):
    open(os.path.join(folder, said), "w").close()
    while not os.path.exists(os.path.join(folder, wanted)):
        time.sleep(0.002)
lines = b"".join(b"%098d\\n" % number for number in range(10000))
meet("begin", "go")
begin = time.monotonic()
for number in range(count):
    piece = memoryview(b"%06d" % number + lines)[:1000000]
    while piece:
        piece = piece[os.write(1, piece):]
    time.sleep(max(0, begin + (number + 1) / 100 - time.monotonic()))
print(time.monotonic() - begin, file=open(os.path.join(folder, "took"), "w"))
meet("end", "quit")
"""


def measure(quick: bool) -> Result:
    """Interleaved runs of both."""
    count = 20 if quick else 1000
    with Workshop() as shop:
        script = shop.path / "print.py"
        script.write_text(_PROGRAM, encoding="utf-8")
        program = [interpreter(), str(script), str(shop.path), str(count)]
        wanted = _printed(count)
        rounds = interleaved(
            {
                "tony": lambda: _tony(shop, program, count, wanted),
                "secrets": lambda: _tony(shop, program, count, wanted, *_SECRETS),
                "cat": lambda: _cat(shop, program, count, wanted),
            },
            1 if quick else 3,
            discard=0,
        )
    return Result(lines=_lines(rounds), notes=(f"{count * _PIECE / _MB:,.0f} MB in each run; every byte is compared",))


def _lines(rounds: Rounds) -> tuple[Line, ...]:
    percent, rate = Unit.PERCENT, Unit.PER_SECOND
    return (
        rounds.line("executor, of a core", "tony", "load", against="cat", unit=percent, target=at_most(30)),
        rounds.line(
            "executor, of a core, while it masks three secrets", "secrets", "load", against="cat", unit=percent
        ),
        rounds.line("bytes lost", "tony", "lost", unit=Unit.COUNT, target=at_most(0)),
        rounds.line("bytes printed", "tony", "rate", against="cat", unit=rate),
    )


def _printed(count: int) -> str:
    """The digest of what the program prints."""
    lines = b"".join(b"%098d\n" % number for number in range(10000))
    whole = hashlib.sha256()
    for number in range(count):
        whole.update((b"%06d" % number + lines)[:_PIECE])
    return whole.hexdigest()


def _tony(shop: Workshop, program: Sequence[str], count: int, wanted: str, *options: str) -> Figures:
    def executor() -> Sequence[int]:
        task = shop.ask("status", "--json", "last")["tasks"][0]
        pids = {task["executor_pid"], *descendants(task["executor_pid"])}
        return list(pids - {task["pid"], *descendants(task["pid"])})

    # The limit is above what is printed, so that all of it can be compared.
    _forget(shop)
    folder = shop.submit("--set", "log_limit=8g", *options, "--", *program)
    figures = _while_it_prints(shop, executor, count)
    wait_all()
    log = folder / "logs" / "main-0.s1.t1.out"
    return {**figures, "lost": _lost(log, wanted, count)}


def _cat(shop: Workshop, program: Sequence[str], count: int, wanted: str) -> Figures:
    _forget(shop)
    path = shop.path / "cat.out"
    with path.open("wb") as file:
        printing = shop.start(program, stdout=subprocess.PIPE)
        pump = shop.start(["cat"], stdin=printing.stdout, stdout=file)
    assert printing.stdout
    printing.stdout.close()
    figures = _while_it_prints(shop, lambda: [pump.pid], count)
    wait_all([printing, pump])
    return {**figures, "lost": _lost(path, wanted, count)}


def _while_it_prints(shop: Workshop, pump: Callable[[], Sequence[int]], count: int) -> dict[str, float]:
    """Meets the program before its first and after its last piece."""
    begin, go, took, end, leave = (shop.path / name for name in _FILES)
    _wait(begin)
    pids = pump()
    before = _cpu(pids)
    go.touch()
    _wait(end)
    # What is still in the pipe, a megabyte at most, is taken meanwhile.
    time.sleep(0.05)
    cpu = _cpu(pids) - before
    seconds = float(took.read_text())
    leave.touch()
    return {"load": 100 * cpu / seconds, "rate": count * _PIECE / seconds}


def _forget(shop: Workshop) -> None:
    """Removes what the round before has said."""
    for name in _FILES:
        (shop.path / name).unlink(missing_ok=True)


def _wait(path: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            raise CannotRunError(f"the program never made {path.name}")
        time.sleep(0.002)


def _cpu(pids: Sequence[int]) -> float:
    """Seconds of user and system time that processes have spent."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def _lost(path: Path, wanted: str, count: int) -> float:
    """Bytes that are missing; a file that is as long and not the same counts as lost whole. The file is removed."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    path.unlink()
    printed = count * _PIECE
    if digest == wanted:
        return 0
    return abs(printed - size) or printed
