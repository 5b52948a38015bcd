"""The archive of the submitter's own interpreter, for nodes without one: `scheduler.yarn.python = "own"`.

It has the executable, its shared library if there is one, and the standard library without tests, site packages and
interactive tools. Python finds its modules relative to the executable, so it works wherever it is extracted as long as
the shared library is found there: the RPATH is rewritten. Whether the result works elsewhere is tested by running it.
The same interpreter gives the same bytes.

ELF format: elf.h, 64 bits, little-endian, as on x86-64 and ARM.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tony.errors import ConfigError, Problem
from tony.schedulers.shipping import OWN_PYTHON
from tony.schedulers.shipping.archive_builder import build_once, compile_pyc, compute_fingerprint
from tony.storage.cache.object_cache import FIXED_TIME, Cache, Stored

#: Folders of the standard library that are not needed on a node.
_EXCLUDED = frozenset(
    {"__pycache__", "test", "tests", "site-packages", "dist-packages", "idlelib", "ensurepip", "turtledemo", "tkinter"}
    | {"lib2to3", "pydoc_data"}
)
#: Location of the shared library, relative to the executable.
_ORIGIN = "$ORIGIN/../lib"
#: Timeout in seconds of the test run.
_TEST_RUN_SECONDS = 60.0
#: Increased when the archive is built differently.
_VERSION = 1
#: Test program: imports what tony imports, and prints where everything was loaded from.
_TEST_PROGRAM = (
    "import sys, json, asyncio, ssl, ctypes, hashlib, zlib, subprocess, logging, tarfile, zipfile\n"
    "files = [getattr(m, '__file__', None) for m in sys.modules.values()]\n"
    "maps = [line.split(None, 5)[5].strip() for line in open('/proc/self/maps') if '/' in line]\n"
    "print(json.dumps({'files': [f for f in files if f], 'maps': maps, 'prefix': sys.base_prefix}))\n"
)

#: Numbers and structures of an ELF program.
_PT_LOAD = 1
_PT_DYNAMIC = 2
_DT_NULL = 0
_DT_NEEDED = 1
_DT_STRTAB = 5
_DT_RPATH = 15
_DT_RUNPATH = 29
_MAGIC = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<32xQ14xHH")
_SEGMENT = struct.Struct("<I4xQQ8xQ16x")
_ENTRY = struct.Struct("<qQ")

#: Name, content, permission bits.
Member = tuple[str, bytes, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnInterpreter:
    """An interpreter of this machine.

    Attributes:
        prefix: the folder that contains it.
        program: the executable.
        library: its folder of modules, below the prefix.
        version: such as `3.11`.
    """

    prefix: Path
    program: Path
    library: Path
    version: str

    @classmethod
    def from_running(cls) -> OwnInterpreter:
        """Return the interpreter of this process; in a virtual environment its base interpreter."""
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        prefix = Path(os.path.realpath(sys.base_prefix))
        program = prefix / "bin" / f"python{version}"
        if not program.exists():
            program = Path(getattr(sys, "_base_executable", sys.executable))
        library = Path(os.path.realpath(os.path.dirname(os.__file__)))
        return cls(prefix=prefix, program=program.resolve(), library=library, version=version)


def store_interpreter(cache: Cache, setting: str, own: OwnInterpreter | None = None) -> Stored:
    """Put the archive into the cache. It is built and tested only once per interpreter.

    Args:
        setting: the key by which the job asks for it, for the error.

    Raises:
        ConfigError: this interpreter does not work in another folder.
        StorageError: the file system refuses.
    """
    own = own or OwnInterpreter.from_running()
    try:
        return build_once(
            cache, f"stage {own.program}", f"python-{_compute_fingerprint(own)}", lambda: _build(own, cache.path)
        )
    except _NotMovableError as error:
        message = (
            f"{own.program} cannot be shipped: {error}. Submit with an interpreter installed by uv or pyenv, or set "
            "this to an interpreter on the nodes."
        )
        raise ConfigError([Problem(key=setting, value=OWN_PYTHON, message=message)]) from error


class _NotMovableError(Exception):
    pass


def _compute_fingerprint(own: OwnInterpreter) -> str:
    """Return a digest that identifies an interpreter without reading it."""
    paths = (own.program, own.library, own.library / "os.py", own.library / "lib-dynload")
    found = ((path.name, path, path.stat()) for path in paths if path.exists())
    return compute_fingerprint(f"{_VERSION}\0{sys.version}\0{own}".encode(), found)


def _build(own: OwnInterpreter, scratch: Path) -> bytes:
    members = list(_iterate_members(own))
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".python-") as folder:
        _test_elsewhere(members, Path(folder).resolve())
    return _build_archive(members)


def _build_archive(members: list[Member]) -> bytes:
    """Build the archive, without owners and times of this machine."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=buffer, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name, content, mode in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(content), mode, FIXED_TIME
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _iterate_members(own: OwnInterpreter) -> Iterator[Member]:
    program = own.program.read_bytes()
    try:
        shared = [name for name in read_libraries(program).needed if name.startswith("libpython")]
        if shared:
            program = with_search_path(program, _ORIGIN)
    except ValueError as error:
        raise _NotMovableError(str(error)) from error
    yield "bin/python3", program, 0o755
    for name in shared:
        yield f"lib/{name}", _find_loaded(name).read_bytes(), 0o755
    if not own.library.is_relative_to(own.prefix):
        raise _NotMovableError(f"its modules are in {own.library}, outside {own.prefix}")
    below = own.library.relative_to(own.prefix)
    for path in _iterate_modules(own.library):
        content = (own.library / path).read_bytes()
        yield f"{below}/{path}", content, 0o644
        if path.endswith(".py") and (code := _compile_module(own.library, path, content)):
            yield importlib.util.cache_from_source(f"{below}/{path}"), code, 0o644


def _find_loaded(name: str) -> Path:
    """Return the file of a shared library that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.split(None, 5)[-1].strip()
            if os.path.basename(path) == name or os.path.basename(os.path.realpath(path)) == name:
                return Path(path)
    raise _NotMovableError(f"it needs {name}, which cannot be found")


def _iterate_modules(library: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(library):
        folders[:] = sorted(name for name in folders if name not in _EXCLUDED and not name.startswith("config-"))
        for name in sorted(files):
            path = os.path.join(folder, name)
            if not name.endswith((".pyc", ".a")) and not name.startswith("_test") and os.path.isfile(path):
                yield os.path.relpath(path, library)


def _compile_module(library: Path, path: str, source: bytes) -> bytes | None:
    try:
        return compile_pyc(source, library / path, path)
    except (SyntaxError, ValueError):  # examples of invalid Python
        return None


def _test_elsewhere(members: list[Member], place: Path) -> None:
    """Extract it to another folder, and run it."""
    for name, content, mode in members:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    try:
        done = subprocess.run(
            [place / "bin" / "python3", "-I", "-S", "-c", _TEST_PROGRAM],
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TEST_RUN_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _NotMovableError(f"in another folder it does not start ({error})") from error
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise _NotMovableError(
            f"it does not work in another folder ({''.join(last) or f'exit code {done.returncode}'})"
        )
    loaded = json.loads(done.stdout)
    foreign = [path for path in loaded["files"] if not Path(path).is_relative_to(place) and path != "frozen"]
    foreign += [path for path in loaded["maps"] if "libpython" in path and not Path(path).is_relative_to(place)]
    if foreign:
        raise _NotMovableError(f"in another folder it still uses {foreign[0]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Libraries:
    """The dynamic section of a program.

    Attributes:
        needed: names of shared libraries.
        path: RPATH or RUNPATH: folders to search, separated by `:`; None if it has none.
        path_at: offset of that text in the file; the byte after it is 0.
    """

    needed: tuple[str, ...] = ()
    path: str | None = None
    path_at: int = 0


def read_libraries(program: bytes) -> Libraries:
    """Parse a program.

    Raises:
        ValueError: it is not a 64-bit ELF program.
    """
    if not program.startswith(_MAGIC):
        raise ValueError("it is not a 64-bit Linux program (ELF)")
    try:
        return _read(program)
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"it is a damaged program ({error})") from error


def with_search_path(program: bytes, folders: str) -> bytes:
    """Return the program with other folders to search. They must not be longer than the present ones.

    Raises:
        ValueError: they are longer.
    """
    found, new = read_libraries(program), folders.encode()
    if found.path is None or len(found.path.encode()) < len(new):
        raise ValueError(f"its RPATH is too short for the path of its libraries ({found.path or 'it has none'})")
    end = found.path_at + len(found.path.encode())
    return program[: found.path_at] + new.ljust(end - found.path_at, b"\0") + program[end:]


def _read(program: bytes) -> Libraries:
    table, size, count = _HEADER.unpack_from(program)
    segments = [_SEGMENT.unpack_from(program, table + number * size) for number in range(count)]
    loaded = [(address, offset, length) for kind, offset, address, length in segments if kind == _PT_LOAD]
    entries: list[tuple[int, int]] = []
    for kind, offset, _, length in segments:
        if kind == _PT_DYNAMIC:
            entries += [_ENTRY.unpack_from(program, at) for at in range(offset, offset + length, _ENTRY.size)]
    if (_DT_NULL, 0) in entries:
        entries = entries[: entries.index((_DT_NULL, 0))]
    values = dict(entries)
    if _DT_STRTAB not in values:
        return Libraries()
    strings = _find_offset(values[_DT_STRTAB], loaded)
    # DT_RUNPATH has priority over DT_RPATH.
    at = values.get(_DT_RUNPATH, values.get(_DT_RPATH))
    return Libraries(
        needed=tuple(_read_text(program, strings + value) for tag, value in entries if tag == _DT_NEEDED),
        path=None if at is None else _read_text(program, strings + at),
        path_at=0 if at is None else strings + at,
    )


def _find_offset(address: int, loaded: list[tuple[int, int, int]]) -> int:
    for start, offset, length in loaded:
        if start <= address < start + length:
            return address - start + offset
    raise IndexError("an address outside the program")


def _read_text(program: bytes, at: int) -> str:
    return program[at : program.index(b"\0", at)].decode("utf-8", "replace")
