"""Find a Java to run the daemons, and Maven to download them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tony.errors import UserError

_INSTALLED = Path("/usr/lib/jvm")
_OLDEST = 11
#: Minimum for Hadoop 3.5, which is compiled for it.
_OLDEST_FOR_35 = 17
#: Java without the security manager, which Hadoop before 3.5 calls at every login.
_TOO_NEW_BEFORE_35 = 24
_TO_INSTALL = "On Debian: apt-get install default-jre-headless maven"


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
    for home, source in _candidates(environment, installed):
        version = _version(home)
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


def _candidates(environment: Mapping[str, str], installed: Path) -> Iterator[tuple[Path, str]]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"]), "JAVA_HOME"
    command = shutil.which("java", path=environment.get("PATH"))
    if command:
        yield Path(command).resolve().parents[1], "java on PATH"
    for path in sorted(installed.glob("*/bin/java")):
        yield path.parents[1].resolve(), f"{installed}/{path.parents[1].name}"


def _version(home: Path) -> int | None:
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
