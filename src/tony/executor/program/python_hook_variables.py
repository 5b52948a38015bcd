"""Environment variables that connect a program's Python processes with tony: see `tony.python_hooks`."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import tony

#: Path of the socket to which `tony.progress` reports.
PROGRESS = "TONY_PROGRESS"
#: Number of the signal on which Python dumps its stack traces.
STACKS = "TONY_STACKS"
#: A real-time signal that no known framework uses. It is sent only to processes that have registered it.
STACKS_SIGNAL = signal.SIGRTMIN + 11
_PATH = "PYTHONPATH"
#: Set in processes of JAX: the hooks let `jax.distributed.initialize()` find the others.
_JAX = "JAX_PROCESS_ID"
#: On a node, tony's modules are in a zip for one version of Python; the zip of sources is next to it.
_SOURCES = "programs.zip"


def build_variables(environment: Mapping[str, str], progress: str | None, *, hooks: bool) -> dict[str, str]:
    """Return the variables to add to a program's environment. Its own PYTHONPATH comes first.

    Args:
        environment: of the program.
        progress: path of the socket for `tony.progress`; None if progress is not recorded.
        hooks: whether its Python dumps its stack traces on the signal.
    """
    found = {} if progress is None else {PROGRESS: progress}
    if hooks:
        found[STACKS] = str(int(STACKS_SIGNAL))
    base = find_folder()
    if base is not None:
        hook_folders = [f"{base}/library", *([f"{base}/hooks"] if hooks or _JAX in environment else [])]
        found[_PATH] = os.pathsep.join([*filter(None, [environment.get(_PATH)]), *hook_folders])
    return found


def find_folder() -> str | None:
    """Return the directory, perhaps inside a zip, with the sources of `tony.python_hooks`; None without one."""
    root = Path(tony.__file__).parent.parent
    if root.is_dir():
        return str(root / "tony/python_hooks")
    sources = root.parent / _SOURCES
    return str(sources / "tony/python_hooks") if sources.is_file() else None
