"""Archives are fetched once, whole or not at all."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.facts import mention_each
from tests.mini.conftest import Machine
from tony.errors import InfraError, StorageError, UserError
from tony.mini.software import POM, Java, cache_folder, fetch


@pytest.fixture
def java(tmp_path: Path) -> Java:
    return Java(home=tmp_path, version=17, source="test")


def test_the_pom_lists_all_artifacts() -> None:
    """Every archive is of the requested release, and none of them is named twice."""
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    found = ElementTree.parse(POM).findall("m:dependencies/m:dependency", space)
    names = [each.findtext("m:artifactId", namespaces=space) for each in found]
    assert len(set(names)) == len(names)
    assert {"hadoop-hdfs", "hadoop-yarn-server-resourcemanager", "hadoop-yarn-server-nodemanager"} <= {*names}
    assert {"${hadoop.version}"} == {each.findtext("m:version", namespaces=space) for each in found}


def test_where() -> None:
    """Outside of every home of ours; a relative XDG_CACHE_HOME does not count."""
    assert Path("/home/me/.cache/tony/hadoop") == cache_folder({"HOME": "/home/me"})
    assert Path("/home/me/.cache/tony/hadoop") == cache_folder({"HOME": "/home/me", "XDG_CACHE_HOME": "here"})
    assert Path("/fast/tony/hadoop") == cache_folder({"HOME": "/home/me", "XDG_CACHE_HOME": "/fast"})


def test_once(machine: Machine, java: Java) -> None:
    """The second time needs no Maven."""
    machine.install_maven()
    notices: list[str] = []
    folder = fetch("3.4.2", java, machine.environment, notices.append)
    assert ["hadoop-yarn-server-nodemanager-3.4.2.jar"] == [path.name for path in folder.iterdir()]
    assert mention_each(notices, ("3.4.2", "100 MB"))
    assert "-Dhadoop.version=3.4.2" in machine.asked[0]
    (machine.folder / "bin" / "mvn").unlink()
    assert folder == fetch("3.4.2", java, machine.environment, notices.append)
    assert 1 == len(notices)
    with pytest.raises(UserError, match="Maven"):
        fetch("3.4.1", java, {**machine.environment, "PATH": "/nowhere"}, notices.append)


def test_maven_fails(machine: Machine, java: Java) -> None:
    """What it says is told, and half of a cache is none."""
    machine.install_maven("echo '[ERROR] no route to the repository'; exit 1")
    with pytest.raises(InfraError, match=re.escape("(exit code 1):\n[ERROR] no route to the repository")):
        fetch("3.4.2", java, machine.environment, print)
    assert [] == list(cache_folder(machine.environment).iterdir())


def test_leftovers_of_a_killed_download_are_removed(machine: Machine, java: Java) -> None:
    machine.install_maven()
    left = cache_folder(machine.environment) / ".partial-x"
    left.mkdir(parents=True)
    folder = fetch("3.4.2", java, machine.environment, print)
    assert [folder] == list(folder.parent.iterdir())


def test_a_cache_that_cannot_be_made(machine: Machine, java: Java) -> None:
    machine.install_maven()
    (machine.folder / "cache").write_text("")
    with pytest.raises(StorageError, match=r"in .*/cache/tony/hadoop: Not a directory"):
        fetch("3.4.2", java, machine.environment, print)
