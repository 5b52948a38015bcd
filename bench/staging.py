"""Staging a source tree of 100 MB in 5,000 files: the first time, again unchanged, and with one file changed.

Timed is the client's `stage` alone, in a fresh interpreter each time; CPU is that of the whole process. Against `cp -r`
and `rsync -a` of the same tree into a new folder of the same file system. The tree's pages are in memory for all of
them, and no write waits for the disk.
"""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.harness import CPU, Figures, Line, Result, at_most, interleaved
from bench.measured_processes import Workshop

TITLE = "Staging a source tree"

_MB = 1_000_000
#: Seconds. A file that changed so shortly before it was read is read again: it might change once more in that tick.
_SETTLED = 2.5
_STAGE = """\
import sys, time
from pathlib import Path
from tony.client.staging import stage
from tony.model.job_spec import JobSpec
from tony.model.state_directory import Home
home, job, source = Home(Path(sys.argv[1])), sys.argv[2], sys.argv[3]
folder = home.job(job)
folder.path.mkdir(parents=True)
begin = time.perf_counter()
staged = stage(JobSpec(command="true", source=source), home, folder, lambda notice: None)
print(time.perf_counter() - begin)
"""


def measure(quick: bool) -> Result:
    """Interleaved runs of all."""
    files, size = (50, _MB) if quick else (5000, 100 * _MB)
    with Workshop() as shop:
        rounds = interleaved(_ways(shop, files, size), 1 if quick else 5, discard=0 if quick else 1)
    lines = [
        rounds.line("first time", "first", "wall", against="cp -r"),
        rounds.line("second time, nothing changed", "second", "wall", against="cp -r", target=at_most(1.0)),
        rounds.line("second time, one file changed", "changed", "wall", against="cp -r"),
    ]
    if "rsync -a" in rounds.samples:
        lines.append(rounds.line("first time", "first", "wall", against="rsync -a"))
        lines.append(rounds.line("second time, nothing changed", "second", "wall", against="rsync -a, again"))
    else:
        lines.append(Line.missing("against rsync -a", "rsync is not installed"))
    return Result(lines=tuple(lines), notes=(f"{files:,} files, {size / _MB:,.0f} MB",))


def _ways(shop: Workshop, files: int, size: int) -> dict[str, Callable[[], Figures]]:
    """Every way, with what it needs made before: a known tree for the second time, another one that changes."""
    tree, changing = shop.path / "tree", shop.path / "changing"
    _grow(tree, files, size)
    shutil.copytree(tree, changing)
    time.sleep(_SETTLED)
    known = shop.path / "known"
    for each in (tree, changing):
        _stage(shop, known, each)
    changed_file = min(changing.rglob("*.dat"))

    def changed() -> Figures:
        changed_file.write_bytes(random.randbytes(1000))
        return _stage(shop, known, changing)

    ways = {
        "first": lambda: _stage(shop, _new_folder(shop), tree),
        "second": lambda: _stage(shop, known, tree),
        "changed": changed,
        "cp -r": lambda: _copy(shop, ["cp", "-r", str(tree)]),
    }
    if shutil.which("rsync"):
        again = str(shop.path / "again")
        ways["rsync -a"] = lambda: _copy(shop, ["rsync", "-a", f"{tree}/"])
        ways["rsync -a, again"] = lambda: shop.run(["rsync", "-a", f"{tree}/", again]).figures
    return ways


def _new_folder(shop: Workshop) -> Path:
    """A name in the workshop. What lies there stays to the end: ext4 takes five times as long to make a file while it
    remembers thousands that were just removed, and only those who make thousands would pay for it.
    """
    return shop.path / f"new-{time.monotonic_ns()}"


def _stage(shop: Workshop, home: Path, tree: Path) -> Figures:
    job = f"job-{time.monotonic_ns()}"
    done = shop.run([sys.executable, "-c", _STAGE, str(home), job, str(tree)])
    return {"wall": float(done.output), CPU: done.cpu}


def _copy(shop: Workshop, command: Sequence[str]) -> Figures:
    return shop.run([*command, str(_new_folder(shop))]).figures


def _grow(tree: Path, files: int, size: int) -> None:
    """Files of very different sizes, as in a checkout with some data; half of each can be compressed."""
    chance = random.Random(1)
    weights = [chance.paretovariate(1.2) for _ in range(files)]
    scale = size / sum(weights)
    for number, weight in enumerate(weights):
        folder = tree / f"package{number % 50:02}" / f"part{number % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        half = int(weight * scale / 2)
        (folder / f"file{number:05}.dat").write_bytes(chance.randbytes(half) + b"text\n" * (half // 5))
