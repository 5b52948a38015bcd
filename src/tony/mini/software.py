"""The software of a small cluster: Java, Maven, and Hadoop's jars.

Maven downloads the jars once; they are cached outside the state directory, shared by all clusters of the user.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tony.errors import InfraError, StorageError, UserError

_INSTALLED = Path("/usr/lib/jvm")
_OLDEST = 11
#: Minimum for Hadoop 3.5, which is compiled for it.
_OLDEST_FOR_35 = 17
#: Java without the security manager, which Hadoop before 3.5 calls at every login.
_TOO_NEW_BEFORE_35 = 24
_TO_INSTALL = "On Debian: apt-get install default-jre-headless maven"

POM = Path(__file__).parent / "pom.xml"
#: What a folder in the cache is called until it is complete.
PARTIAL = ".partial-"
#: Timeout in seconds for downloading 100 MB.
_DOWNLOAD_SECONDS = 1800.0
#: Lines of Maven's output that an error shows.
_LINES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """An installed Java.

    Attributes:
        home: JAVA_HOME.
        version: its major version: 8, 11, 17...
        source: how it was found.
    """

    home: Path
    version: int
    source: str


def find_java(environment: Mapping[str, str], hadoop: str, installed: Path = _INSTALLED) -> Java:
    """Return the first Java that can run a release of Hadoop: from JAVA_HOME, PATH, or the system's installations.

    Args:
        installed: folder of the system's installations.

    Raises:
        UserError: there is none; says which were found.
    """
    wrong: list[str] = []
    for home, source in _list_candidates(environment, installed):
        version = _find_version(home)
        if version is None:
            wrong.append(f"{source} is {home}, which has no working Java")
            continue
        if fits(version, hadoop):
            return Java(home=home, version=version, source=source)
        wrong.append(f"{source} is Java {version} ({home})")
    found = f"; found: {'; '.join(dict.fromkeys(wrong))}" if wrong else ", but none was found"
    raise UserError(f"Hadoop {hadoop} needs {_describe_needed_java(hadoop)}{found}. {_TO_INSTALL}, or set JAVA_HOME.")


def fits(version: int, hadoop: str) -> bool:
    """Return True if a Java version can run a release of Hadoop."""
    if _is_at_least_35(hadoop):
        return version >= _OLDEST_FOR_35
    return _OLDEST <= version < _TOO_NEW_BEFORE_35


def find_maven(environment: Mapping[str, str]) -> Path:
    """Return the path of Maven's command.

    Raises:
        UserError: it is not installed.
    """
    found = shutil.which("mvn", path=environment.get("PATH"))
    if not found:
        raise UserError(f"Maven (mvn) is needed to download Hadoop the first time, but is not on PATH. {_TO_INSTALL}")
    return Path(found)


def _list_candidates(environment: Mapping[str, str], installed: Path) -> Iterator[tuple[Path, str]]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"]), "JAVA_HOME"
    command = shutil.which("java", path=environment.get("PATH"))
    if command:
        yield Path(command).resolve().parents[1], "java on PATH"
    for path in sorted(installed.glob("*/bin/java")):
        yield path.parents[1].resolve(), f"{installed}/{path.parents[1].name}"


def _find_version(home: Path) -> int | None:
    try:
        done = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return read_version(done.stderr.decode(errors="replace"))


def read_version(text: str) -> int | None:
    """Return the major version printed by `java -version`: 8 for `1.8.0_392`, 17 for `17.0.15`, 24 for `24-ea`."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _is_at_least_35(hadoop: str) -> bool:
    return tuple(map(int, hadoop.split(".")[:2])) >= (3, 5)


def _describe_needed_java(hadoop: str) -> str:
    if _is_at_least_35(hadoop):
        return f"Java {_OLDEST_FOR_35} or newer"
    return f"Java {_OLDEST} to {_TOO_NEW_BEFORE_35 - 1}"


def cache_folder(environment: Mapping[str, str], name: str = "hadoop") -> Path:
    """Return the cache of jars, or another one of `tony`, in the user's cache folder."""
    chosen = environment.get("XDG_CACHE_HOME") or ""
    base = Path(chosen) if os.path.isabs(chosen) else Path(environment.get("HOME") or "~").expanduser() / ".cache"
    return base / "tony" / name


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
    folder = _build_folder_path(cache, hadoop)
    maven = find_maven(environment)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with lock_cache(cache):
            if not folder.is_dir():
                notice(f"downloading Hadoop {hadoop} with Maven (about 100 MB, only the first time)")
                _download(folder, hadoop, maven, java, environment)
    except OSError as error:
        raise StorageError(f"cannot store Hadoop's jars in {cache}: {error.strerror or error}") from error
    return folder


def find_folder(cache: Path, hadoop: str) -> Path | None:
    """Return the cached jars of a release; None if they have to be downloaded."""
    folder = _build_folder_path(cache, hadoop)
    return folder if folder.is_dir() else None


def _build_folder_path(cache: Path, hadoop: str) -> Path:
    # A changed pom.xml gives another folder, so that versions are never mixed.
    return cache / f"{hadoop}-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"


@contextlib.contextmanager
def lock_cache(cache: Path) -> Iterator[None]:
    """Lock the cache for one download at a time, and remove what a killed one has left."""
    handle = os.open(cache, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for left in cache.glob(f"{PARTIAL}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(handle)


def _download(folder: Path, hadoop: str, maven: Path, java: Java, environment: Mapping[str, str]) -> None:
    partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=folder.parent))
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
            timeout=_DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InfraError(f"Maven could not download Hadoop {hadoop} within {_DOWNLOAD_SECONDS:.0f} s") from None
    if done.returncode != 0 or not any(jars.glob("hadoop-yarn-server-nodemanager-*.jar")):
        lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
        output = "\n".join(line[:500] for line in lines[:_LINES])
        raise InfraError(f"Maven could not download Hadoop {hadoop} (exit code {done.returncode}):\n{output}")
