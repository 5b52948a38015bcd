"""What a program's environment says of us, for those of its processes that are Python: see `tony.python_hooks`."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import tony

#: Where `tony.progress` tells.
PROGRESS = "TONY_PROGRESS"
#: The signal at which Python shows where it stands.
STACKS = "TONY_STACKS"
#: Of the signals that mean nothing: no framework that we know of uses it. Only who has registered it is ever sent it.
STACKS_SIGNAL = signal.SIGRTMIN + 11
_PATH = "PYTHONPATH"
#: Set in processes of JAX: the hooks let `jax.distributed.initialize()` find the others.
_JAX = "JAX_PROCESS_ID"
#: On a node our modules lie in a zip for one version of Python; that of the sources is beside it.
_SOURCES = "programs.zip"


def variables(environment: Mapping[str, str], progress: str | None, *, hooks: bool) -> dict[str, str]:
    """What to add to a program's environment. Its own PYTHONPATH goes first.

    Args:
        environment: of the program.
        progress: path of the socket for `tony.progress`; None if nobody listens.
        hooks: whether its Python shall show where it stands when it is asked.
    """
    found = {} if progress is None else {PROGRESS: progress}
    if hooks:
        found[STACKS] = str(int(STACKS_SIGNAL))
    base = folder()
    if base is not None:
        ours = [f"{base}/library", *([f"{base}/hooks"] if hooks or _JAX in environment else [])]
        found[_PATH] = os.pathsep.join([*filter(None, [environment.get(_PATH)]), *ours])
    return found


def folder() -> str | None:
    """Where `tony.python_hooks` lies as sources; a folder of a zip will do for Python. None if it is not here."""
    root = Path(tony.__file__).parent.parent
    if root.is_dir():
        return str(root / "tony/python_hooks")
    sources = root.parent / _SOURCES
    return str(sources / "tony/python_hooks") if sources.is_file() else None
