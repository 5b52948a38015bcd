"""Makes an unpacked environment ready: relocates it, names its interpreter `python`, test-runs it, syncs it to disk."""

from __future__ import annotations

import ctypes
import os
import re
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tony.errors import StorageError
from tony.storage.environments.environment_relocation import relocate


def require_runnable(python: Path, what: str) -> None:
    """Refuse an interpreter that does not exist or may not be executed.

    Args:
        what: its origin, for the message.

    Raises:
        StorageError: the message names a dangling link, if there is one.
    """
    host = socket.gethostname()
    if os.path.isfile(python):
        if os.access(python, os.X_OK):
            return
        raise StorageError(f"{what}: {python} on {host} is not executable. Make it executable (chmod +x).")
    if os.path.islink(python):
        raise StorageError(
            f"{what}: its bin/{python.name} is a link to {os.path.realpath(python)}, which does not exist on {host}. "
            "A venv uses the Python it was created with: install that there, or pack the environment with conda-pack, "
            "which includes its own."
        )
    raise StorageError(f"{what}: {python} does not exist on {host}. Give the path of a Python that exists there.")


#: Seconds. conda-unpack rewrites every file that contains the old path: minutes for a large environment on a slow disk.
_UNPACK_TIMEOUT_SECONDS = 1800.0
#: Seconds for a first start from a cold disk; the interpreter alone, no packages.
_START_TIMEOUT_SECONDS = 120.0
#: Works on every version of Python.
_VERSION_SCRIPT = "import sys; print('python %d.%d' % sys.version_info[:2])"


def prepare(prefix: Path, name: str, env: Mapping[str, str]) -> None:
    """Prepare the environment at `prefix`, its final place.

    Args:
        name: the archive's name, for messages.
        env: variables for the environment's programs that are run.

    Raises:
        StorageError: it cannot work on this node; the message says why.
        OSError: the file system refuses.
    """
    _name_python(prefix)
    unpacker = prefix / "bin" / "conda-unpack"
    if unpacker.is_file():
        _run(prefix, [str(unpacker)], f"the archive {name}: its bin/conda-unpack", _UNPACK_TIMEOUT_SECONDS, env)
    else:
        relocate(prefix)
    _require_start(prefix, name, env)
    _sync_to_disk(prefix)


def _name_python(prefix: Path) -> None:
    """Make the interpreter available as both `python` and `python3`."""
    for name, other in (("python", "python3"), ("python3", "python")):
        if not os.path.lexists(prefix / "bin" / name):
            os.symlink(other, prefix / "bin" / name)


def _require_start(prefix: Path, name: str, env: Mapping[str, str]) -> None:
    what = f"the archive {name}"
    require_runnable(prefix / "bin" / "python", what)
    answer = _run(prefix, ["-c", _VERSION_SCRIPT], f"{what}: its bin/python", _START_TIMEOUT_SECONDS, env)
    version = re.search(r"python (\d+\.\d+)", answer)
    if version is None:
        raise StorageError(f"{what}: its bin/python is not Python: its output was {answer[:200]!r}")
    made_for = sorted(path.name for path in (prefix / "lib").glob("python*.*") if (path / "site-packages").is_dir())
    if (prefix / "pyvenv.cfg").is_file() and made_for and f"python{version[1]}" not in made_for:
        raise StorageError(
            f"{what} was made for {', '.join(made_for)}, but {os.path.realpath(prefix / 'bin' / 'python')} on "
            f"{socket.gethostname()} is Python {version[1]}. Create the archive again with that Python."
        )


def _run(prefix: Path, arguments: list[str], what: str, limit: float, env: Mapping[str, str]) -> str:
    """Run a program of the environment; return its output."""
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
        raise StorageError(f"{what} did not exit within {limit:.0f} s on {socket.gethostname()}") from error
    except OSError as error:
        raise StorageError(
            f"{what} cannot be started on {socket.gethostname()} ({error.strerror}). "
            "It was probably built for another platform."
        ) from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no error output"])[-1]
        raise StorageError(f"{what} failed on {socket.gethostname()} (exit code {done.returncode}): {last}")
    return done.stdout


def _sync_to_disk(prefix: Path) -> None:
    """Sync the file system that contains the environment: one call instead of one per file."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = os.open(prefix, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if libc.syncfs(folder) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(folder)
