"""Environments for frameworks that do not fit into .venv, made on first use and kept in .cache."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Seconds that a test which may have to build one takes at most.
BUILD = 2400
_IMPOSSIBLE = 3
DEBIAN_PYTHON = "/usr/bin/python3"


@cache
def has_torch() -> bool:
    """Return True if the interpreter that the PyTorch example names has torch, which is not imported: that is slow."""
    if not Path(DEBIAN_PYTHON).exists():
        return False
    test = (
        "import sys; from importlib.util import find_spec; sys.exit(not (find_spec('torch') and find_spec('sklearn')))"
    )
    return subprocess.run([DEBIAN_PYTHON, "-c", test], capture_output=True, check=False).returncode == 0


@cache
def find_recording_torch() -> str | None:
    """Return an interpreter whose PyTorch records collective operations of gloo; TEST_TORCH may name one."""
    for python in (os.environ.get("TEST_TORCH", ""), DEBIAN_PYTHON):
        test = [python, "-c", "from torch._C._distributed_c10d import _dump_fr_trace_json"]
        if Path(python).is_file() and subprocess.run(test, capture_output=True, check=False).returncode == 0:
            return python
    return None


def interpreter(name: str) -> str:
    """The interpreter that has a framework; skips the test where it cannot be had.

    Args:
        name: as `scripts/framework-env` takes it.
    """
    path, why = _made(name)
    if not path:
        pytest.skip(why)
    return path


@cache
def _made(name: str) -> tuple[str, str]:
    done = subprocess.run(
        [ROOT / "scripts" / "framework-env", name],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD,
        check=False,
    )
    said = done.stderr.strip().splitlines()
    if done.returncode == _IMPOSSIBLE:
        return "", said[-1]
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), ""
