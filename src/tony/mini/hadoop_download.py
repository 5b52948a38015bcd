"""Hadoop's jars: downloaded once by Maven, cached outside the state directory, shared by all clusters of the user."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tony.errors import InfraError, StorageError
from tony.mini.java import Java, find_maven

POM = Path(__file__).parent / "pom.xml"
_PARTIAL = ".partial-"
#: Timeout in seconds for downloading 100 MB.
_TIMEOUT_SECONDS = 1800.0
#: Lines of Maven's output that an error shows.
_LINES = 8


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the cache of jars: `tony/hadoop` in the user's cache folder."""
    chosen = environment.get("XDG_CACHE_HOME") or ""
    base = Path(chosen) if os.path.isabs(chosen) else Path(environment.get("HOME") or "~").expanduser() / ".cache"
    return base / "tony" / "hadoop"


def fetch(hadoop: str, java: Java, environment: Mapping[str, str], notice: Callable[[str], None]) -> Path:
    """Return the folder with the jars of a release, and nothing else; download them if they are missing.

    Raises:
        UserError: Maven is needed, but not installed.
        InfraError: Maven could not download them.
        StorageError: the cache cannot be written.
    """
    cache = cache_folder(environment)
    found = find_folder(cache, hadoop)
    if found is not None:
        return found
    folder = _folder(cache, hadoop)
    maven = find_maven(environment)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _lock(cache):
            if not folder.is_dir():
                notice(f"downloading Hadoop {hadoop} with Maven (about 100 MB, only the first time)")
                _make(folder, hadoop, maven, java, environment)
    except OSError as error:
        raise StorageError(f"cannot store Hadoop's jars in {cache}: {error.strerror or error}") from error
    return folder


def find_folder(cache: Path, hadoop: str) -> Path | None:
    """Return the cached jars of a release; None if they have to be downloaded."""
    folder = _folder(cache, hadoop)
    return folder if folder.is_dir() else None


def _folder(cache: Path, hadoop: str) -> Path:
    # A changed pom.xml gives another folder, so that versions are never mixed.
    return cache / f"{hadoop}-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"


@contextlib.contextmanager
def _lock(cache: Path) -> Iterator[None]:
    """Lock the cache for one download at a time, and remove what a killed one has left."""
    handle = os.open(cache, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for left in cache.glob(f"{_PARTIAL}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(handle)


def _make(folder: Path, hadoop: str, maven: Path, java: Java, environment: Mapping[str, str]) -> None:
    partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder.parent))
    try:
        jars = partial / "jars"
        _run_maven(jars, hadoop, maven, java, environment)
        jars.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _run_maven(jars: Path, hadoop: str, maven: Path, java: Java, environment: Mapping[str, str]) -> None:
    command = [
        *(str(maven), "-q", "-B", "-f", str(POM), f"-Dhadoop.version={hadoop}"),
        *("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"),
    ]
    try:
        done = subprocess.run(
            command,
            env={**environment, "JAVA_HOME": str(java.home)},
            cwd=jars.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InfraError(f"Maven could not download Hadoop {hadoop} within {_TIMEOUT_SECONDS:.0f} s") from None
    if done.returncode != 0 or not any(jars.glob("hadoop-yarn-server-nodemanager-*.jar")):
        lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
        output = "\n".join(line[:500] for line in lines[:_LINES])
        raise InfraError(f"Maven could not download Hadoop {hadoop} (exit code {done.returncode}):\n{output}")
