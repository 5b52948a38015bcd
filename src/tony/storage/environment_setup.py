"""Makes an unpacked environment ready: moved to its new place, named `python`, tried once, safe on disk."""

from __future__ import annotations

import ctypes
import os
import re
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tony.errors import StorageError
from tony.storage.environment_relocation import relocate
from tony.storage.interpreter_check import require_runnable

#: conda-unpack rewrites every file that names the old place: minutes for a big environment on a slow disk.
_UNPACK_LIMIT = 1800.0
#: A first start from a cold disk; the interpreter alone, no packages.
_START_LIMIT = 120.0
#: Works on every Python there is.
_QUESTION = "import sys; print('python %d.%d' % sys.version_info[:2])"


def prepare(prefix: Path, name: str, env: Mapping[str, str]) -> None:
    """Readies the environment at `prefix`, its final place.

    Args:
        name: the archive's name, for messages.
        env: variables for the environment's programs that are run.

    Raises:
        StorageError: it cannot work on this node; says why.
        OSError: the file system says no.
    """
    _name_python(prefix)
    unpacker = prefix / "bin" / "conda-unpack"
    if unpacker.is_file():
        _run(prefix, [str(unpacker)], f"the archive {name}: its bin/conda-unpack", _UNPACK_LIMIT, env)
    else:
        relocate(prefix)
    _require_start(prefix, name, env)
    _force_to_disk(prefix)


def _name_python(prefix: Path) -> None:
    """Gives the interpreter both names that commands use."""
    for name, other in (("python", "python3"), ("python3", "python")):
        if not os.path.lexists(prefix / "bin" / name):
            os.symlink(other, prefix / "bin" / name)


def _require_start(prefix: Path, name: str, env: Mapping[str, str]) -> None:
    what = f"the archive {name}"
    require_runnable(prefix / "bin" / "python", what)
    answer = _run(prefix, ["-c", _QUESTION], f"{what}: its bin/python", _START_LIMIT, env)
    version = re.search(r"python (\d+\.\d+)", answer)
    if version is None:
        raise StorageError(f"{what}: its bin/python is no Python: it answered {answer[:200]!r}.")
    made_for = sorted(path.name for path in (prefix / "lib").glob("python*.*") if (path / "site-packages").is_dir())
    if (prefix / "pyvenv.cfg").is_file() and made_for and f"python{version[1]}" not in made_for:
        raise StorageError(
            f"{what} was made for {', '.join(made_for)}, but {os.path.realpath(prefix / 'bin' / 'python')} on "
            f"{socket.gethostname()} is Python {version[1]}. Make the archive again with that Python."
        )


def _run(prefix: Path, arguments: list[str], what: str, limit: float, env: Mapping[str, str]) -> str:
    """Runs the environment's own Python; answers what it printed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment.update(env)
    environment["PATH"] = f"{prefix / 'bin'}:{environment.get('PATH', os.defpath)}"
    python = prefix / "bin" / "python"
    try:
        done = subprocess.run(
            [str(python), *arguments],
            env=environment,
            cwd=prefix,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StorageError(f"{what} did not end within {limit:.0f} s on {socket.gethostname()}.") from error
    except OSError as error:
        raise StorageError(
            f"{what} cannot be started on {socket.gethostname()} ({error.strerror}). "
            "It was probably made for another kind of machine."
        ) from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise StorageError(f"{what} failed on {socket.gethostname()} (exit code {done.returncode}): {last}")
    return done.stdout


def _force_to_disk(prefix: Path) -> None:
    """Writes out the file system that holds the environment: one call instead of one per file."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = os.open(prefix, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if libc.syncfs(folder) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(folder)
