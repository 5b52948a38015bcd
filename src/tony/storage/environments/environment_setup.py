"""Makes an unpacked environment ready: relocates it, names its interpreter `python`, test-runs it, syncs it to disk.

A venv stores the path of its folder in its scripts' first lines, its activate scripts and `pyvenv.cfg`. Python itself
finds its modules relative to its executable, so nothing else has to change. Only regular files in a real `bin/`
directory are touched: a link in a malicious archive must not lead to files outside.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import socket
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tony.errors import StorageError
from tony.linux.files import replace_file

#: Seconds. conda-unpack rewrites every file that contains the old path: minutes for a large environment on a slow disk.
_UNPACK_TIMEOUT_SECONDS = 1800.0
#: Seconds for a first start from a cold disk; the interpreter alone, no packages.
_START_TIMEOUT_SECONDS = 120.0
#: Works on every version of Python.
_VERSION_SCRIPT = "import sys; print('python %d.%d' % sys.version_info[:2])"
_PATH_SCRIPT = "import os, sys; print(os.path.realpath(sys.executable))"
#: The longest first line that every kernel reads whole (BINPRM_BUF_SIZE was 128 until Linux 5.1).
_MAX_SHEBANG_BYTES = 127
#: Scripts are small; anything larger is a binary.
_MAX_SCRIPT_BYTES = 4 * 1024 * 1024
_SHEBANG = re.compile(rb"#![ \t]*(/[^\s]+)/(python[\w.]*)[ \t]*([^\n\r]*)\r?\n")
#: First lines that installers write where a #! line would be too long or contain a space: shell and Python at once.
_EXEC = re.compile(rb"#!/bin/sh\n'''exec' (\"?)(/[^\n\"]+)/(python[\w.]*)\1 ([^\n]*?)\"\$0\" \"\$@\"\n' '''\n")
_ACTIVATED = re.compile(
    rb"""^[ \t]*(?:export |set -gx |setenv )?VIRTUAL_ENV[ =](['"]?)(/[^\n'"]+)\1\s*$""", re.MULTILINE
)
_CREATED = re.compile(rb"^command\s*=.* (/.*?)\s*$", re.MULTILINE)
_HOME = re.compile(rb"^home\s*=\s*(/.*?)\s*$", re.MULTILINE)
#: The platform of a compatibility tag of a wheel, one of several in the file WHEEL.
_TAG = re.compile(r"^Tag: [^-\s]+-[^-\s]+-(\S+)\s*$", re.MULTILINE)
_PLATFORM = re.compile(r"(?:(manylinux1|manylinux2010|manylinux2014)|(manylinux|musllinux)_(\d+)_(\d+))_(\w+)")
#: The oldest glibc of tags that do not say it.
_OLD_TAGS: Mapping[str | None, tuple[int, int]] = {
    "manylinux1": (2, 5),
    "manylinux2010": (2, 12),
    "manylinux2014": (2, 17),
}
#: Interpreters that belong to the system and not to an environment.
_SYSTEM = frozenset({b"/bin", b"/usr/bin", b"/usr/local/bin"})


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
    _find_base(prefix, name)
    require_suitable_packages(prefix, name, find_libc(), os.uname().machine)
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


def _find_base(prefix: Path, name: str) -> None:
    """Let a venv whose Python is elsewhere on this node use that.

    Raises:
        StorageError: there is none of its version.
    """
    import shutil  # late: it loads every compression module

    config = _content(prefix / "pyvenv.cfg")
    versions = _list_versions(prefix)
    python = prefix / "bin" / "python"
    if config is None or os.path.isfile(python) or len(versions) != 1 or os.path.islink(prefix / "bin"):
        return
    own = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    found = sys.executable if own == versions[0] else shutil.which(versions[0])
    if found is None:
        raise StorageError(
            f"the archive {name} was made for {versions[0]}, which is not on {socket.gethostname()}: it has {own}. "
            "Create the archive with that Python, or use an image with the other one."
        )
    # What is on PATH may be a script that starts it.
    done = subprocess.run([found, "-I", "-c", _PATH_SCRIPT], capture_output=True, text=True, check=False)
    base = done.stdout.strip() or found
    for link, target in (("python", base), ("python3", "python")):
        (prefix / "bin" / link).unlink()
        os.symlink(target, prefix / "bin" / link)
    home = b"home = " + os.fsencode(os.path.dirname(base))
    _rewrite(prefix / "pyvenv.cfg", _HOME.sub(lambda _: home, config))


def _list_versions(prefix: Path) -> list[str]:
    """Return the versions of Python that an environment has packages for, such as `python3.12`."""
    return sorted(path.name for path in (prefix / "lib").glob("python*.*") if (path / "site-packages").is_dir())


def _require_start(prefix: Path, name: str, env: Mapping[str, str]) -> None:
    what = f"the archive {name}"
    require_runnable(prefix / "bin" / "python", what)
    answer = _run(prefix, ["-c", _VERSION_SCRIPT], f"{what}: its bin/python", _START_TIMEOUT_SECONDS, env)
    version = re.search(r"python (\d+\.\d+)", answer)
    if version is None:
        raise StorageError(f"{what}: its bin/python is not Python: its output was {answer[:200]!r}")
    made_for = _list_versions(prefix)
    if (prefix / "pyvenv.cfg").is_file() and made_for and f"python{version[1]}" not in made_for:
        raise StorageError(
            f"{what} was made for {', '.join(made_for)}, but {os.path.realpath(prefix / 'bin' / 'python')} on "
            f"{socket.gethostname()} is Python {version[1]}. Create the archive again with that Python."
        )


def find_libc() -> tuple[str, tuple[int, int]]:
    """Return the C library of this system: `manylinux` (glibc) with its version, or `musllinux` (musl)."""
    try:
        match = re.fullmatch(r"glibc (\d+)\.(\d+).*", os.confstr("CS_GNU_LIBC_VERSION") or "")
    except (ValueError, OSError):
        match = None
    return ("manylinux", (int(match[1]), int(match[2]))) if match else ("musllinux", (1, 99))


def require_suitable_packages(prefix: Path, name: str, libc: tuple[str, tuple[int, int]], machine: str) -> None:
    """Refuse an environment with a compiled package that was built for another kind of system.

    Its imports would fail one by one, with messages of the dynamic linker. Source of the tags: PEP 425, 600 and 656.

    Args:
        name: the archive's name.
        libc: as `find_libc` returns it.
        machine: such as `x86_64`.

    Raises:
        StorageError: names the package, and what it was built for.
    """
    for path in sorted(prefix.glob("lib/python*/site-packages/*.dist-info/WHEEL")):
        text = (_content(path) or b"").decode(errors="replace")
        tags = [tag for found in _TAG.findall(text) for tag in found.split(".")]
        if tags and not any(tag == "any" or _suits(tag, libc, machine) for tag in tags):
            package = path.parent.name.removesuffix(".dist-info").replace("-", " ")
            version = ".".join(map(str, libc[1]))
            here = f"glibc {version}" if libc[0] == "manylinux" else "musl"
            raise StorageError(
                f"the archive {name}: its package {package} was built for {' or '.join(tags)}, but "
                f"{socket.gethostname()} has {here} on {machine}. Create the archive on such a system, or in its image."
            )


def _suits(tag: str, libc: tuple[str, tuple[int, int]], machine: str) -> bool:
    match = _PLATFORM.fullmatch(tag)
    if match is None:
        return tag == f"linux_{machine}"
    oldest = _OLD_TAGS.get(match[1]) or (int(match[3]), int(match[4]))
    kind = match[2] or "manylinux"
    return match[5] == machine and kind == libc[0] and oldest <= libc[1]


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


def relocate(prefix: Path) -> None:
    """Replace the old path; may be called again.

    Raises:
        OSError: a file cannot be read or written.
    """
    scripts = prefix / "bin"
    if not stat.S_ISDIR(os.lstat(scripts).st_mode):
        return
    config = _content(prefix / "pyvenv.cfg") or b""
    home = _HOME.search(config)
    kept = _SYSTEM | ({home[1]} if home else set())
    texts = dict(_scripts(scripts))
    old = set(_find_old_prefixes(config, texts.values())) - {os.fsencode(prefix)}
    for path, text in texts.items():
        new = _with_interpreter(text, os.fsencode(scripts), kept)
        if path.name.lower().startswith("activate"):
            new = _replace_prefixes(new, old, prefix)
        if new != text:
            _rewrite(path, new)
    if (moved := _replace_prefixes(config, old, prefix)) != config:
        _rewrite(prefix / "pyvenv.cfg", moved)


def _scripts(folder: Path) -> Iterator[tuple[Path, bytes]]:
    with os.scandir(folder) as entries:
        paths = sorted(Path(entry.path) for entry in entries)
    for path in paths:
        text = _content(path)
        if text is not None and (text.startswith(b"#!") or path.name.lower().startswith("activate")):
            yield path, text


def _content(path: Path) -> bytes | None:
    """Return the content of a small regular file; None for anything else."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_SCRIPT_BYTES:
            return None
        return opened.read()


def _find_old_prefixes(config: bytes, scripts: Iterable[bytes]) -> Iterator[bytes]:
    created = _CREATED.search(config)
    if created:
        yield created[1]
    for text in scripts:
        for match in _ACTIVATED.finditer(text):
            yield match[2]


def _with_interpreter(text: bytes, folder: bytes, kept: frozenset[bytes] | set[bytes]) -> bytes:
    """Return the script with first lines for the Python in `folder`, if they name one of an environment."""
    match, groups = _SHEBANG.match(text), (1, 2, 3)
    if match is None:
        match, groups = _EXEC.match(text), (2, 3, 4)
    if match is None or match[groups[0]] in kept or not match[groups[0]].endswith(b"/bin"):
        return text
    return _build_first_lines(folder + b"/" + match[groups[1]], match[groups[2]].strip()) + text[match.end() :]


def _build_first_lines(interpreter: bytes, options: bytes) -> bytes:
    line = b"#!" + interpreter + (b" " + options if options else b"") + b"\n"
    if len(line) <= _MAX_SHEBANG_BYTES and not re.search(rb"\s", interpreter):
        return line
    quoted = os.fsencode(shlex.quote(os.fsdecode(interpreter)))
    return b"#!/bin/sh\n'''exec' " + quoted + b" " + (options + b" " if options else b"") + b"\"$0\" \"$@\"\n' '''\n"


def _replace_prefixes(text: bytes, old: Iterable[bytes], prefix: Path) -> bytes:
    for place in sorted(old, key=len, reverse=True):
        # `/env` must not be found in `/env2`.
        text = re.sub(re.escape(place) + rb"(?![\w.-])", lambda _: os.fsencode(prefix), text)
    return text


def _rewrite(path: Path, text: bytes) -> None:
    replace_file(path, text, mode=stat.S_IMODE(os.lstat(path).st_mode))
