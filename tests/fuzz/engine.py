"""`make fuzz`: every target for some seconds under the coverage-guided fuzzer, and what it learnt is kept.

    python -m tests.fuzz.engine [--seconds 60] [TARGET ...]
    python -m tests.fuzz.engine --try TARGET FILE       one input, without the fuzzer: to see a find again

A find is written to `.cache/fuzz/<target>/`, and the exit code is 1. What is kept in the repository afterwards is the
smallest set of inputs that goes every way that the fuzzer knows, seeds left out.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.hostile import NASTY
from tests.fuzz.input_costs import TooSlow
from tests.fuzz.registry import TARGETS
from tests.fuzz.target import Target, check

_ROOT = Path(__file__).parents[2]
_WORK = _ROOT / ".cache" / "fuzz"
#: Bytes, as text, that the corpus of one target may take: 2 MB for all of them are a promise.
_MOST = 40_000
#: Seconds of the clock on the wall after which one input counts as a hang, whatever it waits for.
_HANG = 120
#: MiB of memory at which the fuzzer gives up; what one input may take is measured by the target's own bounds.
_MEMORY = 3000


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.engine", description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of: {', '.join(sorted(TARGETS))}; default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: 60)")
    parser.add_argument("--try", dest="one", nargs=2, metavar=("TARGET", "FILE"), help="give it this one input")
    chosen = parser.parse_args(arguments)
    wanted = chosen.one[:1] if chosen.one else chosen.targets
    unknown = [name for name in wanted if name not in TARGETS]
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(sorted(TARGETS))}")
    if chosen.one:
        check(TARGETS[chosen.one[0]], Path(chosen.one[1]).read_bytes())
        return 0
    found = [name for name in chosen.targets or sorted(TARGETS) if not _fuzz(TARGETS[name], chosen.seconds)]
    if found:
        print(f"found something in: {', '.join(found)}", flush=True)
    return 1 if found else 0


def _fuzz(target: Target, seconds: int) -> bool:
    """Runs one target and keeps what it learnt; False if something was found."""
    work = _WORK / target.name
    inputs, best = work / "inputs", work / "best"
    _fill(inputs, [*target.seeds(), *corpus.load(target.name)])
    (work / "words").write_text("".join(f'"{_escaped(word)}"\n' for word in _words(target)), encoding="ascii")
    log = work / "log"
    arguments = [
        f"-max_total_time={seconds}",
        f"-timeout={_HANG}",
        f"-rss_limit_mb={_MEMORY}",
        f"-max_len={target.longest}",
        f"-dict={work / 'words'}",
        f"-artifact_prefix={work}/find-",
    ]
    for old in work.glob("find-kept-*"):
        old.unlink()
    before = set(work.glob("find-*"))
    good = _run(target, [*arguments, str(inputs)], log)
    print(f"{target.name}: {_last_line(log)}", flush=True)
    _fill(best, [])
    if _run(target, ["-merge=1", f"-max_len={target.longest}", str(best), str(inputs)], work / "merge.log"):
        corpus.save(target.name, _fitting(set(_contents(best)) - set(target.seeds())))
    _measure_kept(target)
    finds = sorted(set(work.glob("find-*")) - before)
    for find in finds:
        print(f"  see {log}, and again: .venv/bin/python -m tests.fuzz.engine --try {target.name} {find}", flush=True)
    return good and not finds


def _measure_kept(target: Target) -> None:
    """Memory, exactly, of what is kept: the fuzzer measures few so, and else notices only memory that is written to."""
    for data in corpus.load(target.name):
        try:
            check(target, data)
        except (Exception, TooSlow):  # whatever it is, it is a find
            (_WORK / target.name / f"find-kept-{sha256(data).hexdigest()[:32]}").write_bytes(data)


def _run(target: Target, arguments: Sequence[str], log: Path) -> bool:
    again = log.with_name("again")
    command = shlex.join([sys.executable, "-m", "tests.fuzz.fuzz_target", target.name])
    again.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    again.chmod(0o755)
    env = {**os.environ, "PYTHONHASHSEED": "0", "TONY_FUZZ_AGAIN": str(again)}
    with log.open("wb") as output:
        done = subprocess.run([str(again), *arguments], cwd=_ROOT, env=env, stdout=output, stderr=output, check=False)
    return done.returncode == 0


def _fill(folder: Path, inputs: Iterable[bytes]) -> None:
    """Makes a folder, of these inputs alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for data in inputs:
        (folder / sha256(data).hexdigest()[:32]).write_bytes(data)


def _contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def _words(target: Target) -> list[bytes]:
    return [word for word in (*target.tokens, *NASTY) if 0 < len(word) <= 60]


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _fitting(inputs: Iterable[bytes]) -> list[bytes]:
    """As many as there is room for, the shortest first: they say the most."""
    room = _MOST
    kept = []
    for data in sorted(inputs, key=len):
        room -= len(repr(data)) + 1
        if room < 0:
            break
        kept.append(data)
    return kept


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line for line in lines if line.startswith(("Done ", "SUMMARY: "))]
    return said[-1] if said else (lines[-1] if lines else "the fuzzer said nothing")


if __name__ == "__main__":
    sys.exit(main())
