"""Environments for frameworks that do not fit into .venv, made on first use and kept in .cache."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Seconds that a test which may have to build one takes at most.
BUILD = 2400
_IMPOSSIBLE = 3
DEBIAN_PYTHON = "/usr/bin/python3"


def has_torch() -> bool:
    """Return True if the interpreter that the PyTorch example names can import torch."""
    if not Path(DEBIAN_PYTHON).exists():
        return False
    return (
        subprocess.run([DEBIAN_PYTHON, "-c", "import torch, sklearn"], capture_output=True, check=False).returncode == 0
    )


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
