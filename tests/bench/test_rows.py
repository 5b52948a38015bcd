"""Every row of the bench runs, as a tiny sample, so that it does not rot. What it measures is not looked at."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from bench.__main__ import ROWS
from tests.change_detection import name_changed_part
from tests.kubernetes_build import wait_for_software
from tests.mini_clusters import why_not

ROOT = Path(__file__).parents[2]
#: Rows that start a real cluster.
NEEDS_HADOOP = ("yarn", "yarn_failures", "hdfs_log")
NEEDS_KUBERNETES = ("kubernetes", "kubernetes_failures", "kubernetes_scale")
#: Run by `make test-all` only: each starts a cluster of its own, with the helpers of `yarn` or `kubernetes`.
LONG = ("yarn_failures", "hdfs_log", "kubernetes_failures", "kubernetes_scale")
#: Always run. The types of the others are checked always; they run when the bench or what they import changed.
ALWAYS = ("startup", "core")


def marks_of(row: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a row: it depends on what runs rows, and on what its file imports."""
    if row in ALWAYS:
        return []
    marks = [pytest.mark.xdist_group("shared-kubernetes")] if row in NEEDS_KUBERNETES else []
    if row in LONG:
        return [*marks, pytest.mark.long]
    modules = find_modules("__main__", find_modules(row, set()))
    imported = re.findall(r"^from (tony\.[\w.]+)", "".join(map(read_source, modules)), re.MULTILINE)
    sources = [f"src/{each.replace('.', '/')}/x.py" for each in imported] + [f"bench/{each}.py" for each in modules]
    parts = {name_changed_part(PurePosixPath(each)) for each in sources}
    return [*marks, pytest.mark.on_change(*parts, *{each.partition("/")[0] for each in parts})]


def find_modules(module: str, found: set[str]) -> set[str]:
    """Add a module of the bench, and all that it imports there, to those found."""
    found.add(module)
    source = read_source(module)
    names = re.findall(r"^from bench\.(\w+)", source, re.MULTILINE)
    names += [
        name for line in re.findall(r"^from bench import (.+)", source, re.MULTILINE) for name in line.split(", ")
    ]
    for name in names:
        if name not in found:
            find_modules(name, found)
    return found


def read_source(module: str) -> str:
    return (ROOT / "bench" / f"{module}.py").read_text(encoding="utf-8")


def test_every_row_is_in_the_table() -> None:
    files = {path.stem for path in (ROOT / "bench").glob("*.py") if "\nTITLE = " in path.read_text("utf-8")}
    assert files == set(ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("row", [pytest.param(row, marks=marks_of(row)) for row in ROWS])
def test_a_row_runs_alone(row: str) -> None:
    """It prints its table and keeps nothing of a sample."""
    if row in NEEDS_HADOOP and (reason := why_not()):
        pytest.skip(reason)
    if row in NEEDS_KUBERNETES:
        wait_for_software(os.environ)
    kept = (ROOT / "bench" / "results.md").read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "bench", row, "--quick"], cwd=ROOT, env=os.environ, capture_output=True, text=True
    )
    assert (0, False) == (done.returncode, "was not measured" in done.stderr), done.stderr
    assert "| what " in done.stdout
    assert kept == (ROOT / "bench" / "results.md").read_bytes()
