"""A Java and a Maven that are scripts: what is requested of them is there at once, or fails on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tony.mini.options import DEFAULT_HADOOP
from tony.mini.software import POM, cache_folder, find_folder

_JAVA = """\
#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2025-01-01' >&2; exit; fi
echo "$*" >> "{folder}/asked"
case "$*" in *-format*) exit {format_code};; esac
{daemon}
"""
_MAVEN = """\
#!/bin/sh
echo "$*" >> "{folder}/asked"
for word; do case "$word" in -DoutputDirectory=*) jars="${{word#*=}}";; esac; done
[ -n "$jars" ] && mkdir "$jars" && echo > "$jars/hadoop-yarn-server-nodemanager-{release}.jar"
{rest}
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine whose Java and Maven are scripts."""

    folder: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """Where they are found; the cache is the machine's own."""
        return {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }

    @property
    def asked(self) -> list[str]:
        """The command lines of all that was started."""
        path = self.folder / "asked"
        return path.read_text().splitlines() if path.exists() else []

    def install_java(self, version: str = "17.0.1", daemon: str = "exec sleep 600", format_code: int = 0) -> Path:
        """A Java on the PATH, and its home.

        Args:
            daemon: what a daemon does, in sh.
        """
        text = _JAVA.format(folder=self.folder, version=version, daemon=daemon, format_code=format_code)
        self._install("java", text)
        return self.folder

    def install_maven(self, rest: str = "exit 0") -> None:
        """A Maven on the PATH.

        Args:
            rest: what it does after it has made a folder with one archive.
        """
        self._install("mvn", _MAVEN.format(folder=self.folder, release=DEFAULT_HADOOP, rest=rest))

    def fill_cache(self) -> Path:
        """Hadoop as if it had been fetched."""
        cache_folder(self.environment).mkdir(parents=True)
        assert find_folder(cache_folder(self.environment), DEFAULT_HADOOP) is None
        import hashlib

        name = f"{DEFAULT_HADOOP}-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
        folder = cache_folder(self.environment) / name
        folder.mkdir()
        return folder

    def _install(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """One with neither Java nor Maven yet."""
    folder = tmp_path / "machine"
    folder.mkdir()
    return Machine(folder)
