"""Which Java is taken, and what a person is told who has none that fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.facts import mentions
from tests.mini.conftest import Machine
from tony.errors import UserError
from tony.mini.software import find_java, find_maven, fits, read_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "24-ea" 2025-03-18', 24),
        ('Picked up JAVA_TOOL_OPTIONS: -X\nopenjdk version "11.0.2"', 11),
        ("command not found", None),
    ],
)
def test_versions(text: str, version: int | None) -> None:
    """Old ones count from 1.1, new ones say what they are."""
    assert version == read_version(text)


@pytest.mark.parametrize(
    ("hadoop", "versions"), [("3.4.2", [11, 17, 21]), ("3.3.6", [11, 17, 21]), ("3.5.0", [17, 21, 25])]
)
def test_java_versions_that_hadoop_supports(hadoop: str, versions: list[int]) -> None:
    """Hadoop before 3.5 ends where Java lost its security manager; 3.5 begins with 17."""
    assert versions == [version for version in (8, 11, 17, 21, 25) if fits(version, hadoop)]


def test_the_first_that_fits(machine: Machine, tmp_path: Path) -> None:
    """JAVA_HOME goes first, if it will do."""
    machine.install_java("17.0.1")
    found = find_java(machine.environment, "3.4.2", tmp_path)
    assert (machine.folder, 17, "java on PATH") == (found.home, found.version, found.source)
    other = Machine(tmp_path / "other")
    other.folder.mkdir()
    home = other.install_java("11.0.1")
    found = find_java({**machine.environment, "JAVA_HOME": str(home)}, "3.4.2", tmp_path)
    assert (home, 11, "JAVA_HOME") == (found.home, found.version, found.source)
    other.install_java("1.8.0_1")
    assert 17 == find_java({**machine.environment, "JAVA_HOME": str(home)}, "3.4.2", tmp_path).version


def test_the_systems_own(machine: Machine, tmp_path: Path) -> None:
    """One that is installed and not on PATH serves, too."""
    installed = tmp_path / "jvm"
    (installed / "java-17").mkdir(parents=True)
    Machine(installed / "java-17").install_java()
    assert f"{installed}/java-17" == find_java({"PATH": ""}, "3.4.2", installed).source


def test_none(tmp_path: Path) -> None:
    """What is needed, and how one gets it."""
    with pytest.raises(UserError) as caught:
        find_java({"PATH": str(tmp_path)}, "3.4.2", tmp_path)
    assert mentions(str(caught.value), "3.4.2", "Java 11 to 23", "JAVA_HOME")


def test_one_that_does_not_fit(machine: Machine, tmp_path: Path) -> None:
    """What was found is told, and where; a JAVA_HOME that leads nowhere as well."""
    machine.install_java("1.8.0_392")
    with pytest.raises(UserError) as caught:
        find_java({**machine.environment, "JAVA_HOME": "/nowhere"}, "3.4.2", tmp_path)
    assert mentions(str(caught.value), "JAVA_HOME", "/nowhere", "Java 8")


def test_no_maven(tmp_path: Path) -> None:
    """It is needed once only, and told so."""
    with pytest.raises(UserError, match=r"Maven \(mvn\) is needed to download Hadoop"):
        find_maven({"PATH": str(tmp_path)})
