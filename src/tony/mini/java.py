"""Which Java runs the daemons, and which Maven fetches them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tony.dataclass import dataclass
from tony.errors import UserError

_INSTALLED = Path("/usr/lib/jvm")
_OLDEST = 11
#: Hadoop 3.5 is compiled for this one.
_OLDEST_FOR_35 = 17
#: From this one on Java lacks the security manager that Hadoop before 3.5 calls at every log-in.
_TOO_NEW_BEFORE_35 = 24
_TO_INSTALL = "On Debian: apt-get install default-jre-headless maven"


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """An installed Java.

    Attributes:
        home: the folder that JAVA_HOME names.
        version: its major version: 8, 11, 17...
        source: how it was found.
    """

    home: Path
    version: int
    source: str


def find_java(environment: Mapping[str, str], hadoop: str, installed: Path = _INSTALLED) -> Java:
    """The first Java that can run a release of Hadoop: of JAVA_HOME, of PATH, or installed by the system.

    Args:
        installed: the folder that holds the system's, one each.

    Raises:
        UserError: there is none; says which were found.
    """
    wrong: list[str] = []
    for home, source in _candidates(environment, installed):
        version = _version(home)
        if version is None:
            wrong.append(f"{source} is {home}, where no Java runs")
            continue
        if fits(version, hadoop):
            return Java(home=home, version=version, source=source)
        wrong.append(f"{source} is Java {version} ({home})")
    found = f"; found: {'; '.join(dict.fromkeys(wrong))}" if wrong else ", and none was found"
    raise UserError(f"Hadoop {hadoop} needs {_needed(hadoop)}{found}. {_TO_INSTALL}, or set JAVA_HOME.")


def fits(version: int, hadoop: str) -> bool:
    """Whether a Java runs a release of Hadoop."""
    if _at_least_35(hadoop):
        return version >= _OLDEST_FOR_35
    return _OLDEST <= version < _TOO_NEW_BEFORE_35


def find_maven(environment: Mapping[str, str]) -> Path:
    """Maven's command.

    Raises:
        UserError: there is none.
    """
    found = shutil.which("mvn", path=environment.get("PATH"))
    if not found:
        raise UserError(f"Maven (mvn) is needed to fetch Hadoop the first time, and is not on PATH. {_TO_INSTALL}")
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
    """The major version in what `java -version` prints: 8 of `1.8.0_392`, 17 of `17.0.15`, 24 of `24-ea`."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _at_least_35(hadoop: str) -> bool:
    return tuple(map(int, hadoop.split(".")[:2])) >= (3, 5)


def _needed(hadoop: str) -> str:
    if _at_least_35(hadoop):
        return f"Java {_OLDEST_FOR_35} or newer"
    return f"Java {_OLDEST} to {_TOO_NEW_BEFORE_35 - 1}"
