"""How a program of ours is started in a container: start.sh finds an interpreter, start.py sees whether it will do."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

import tony
from tests.facts import mentions

LAUNCH = Path(tony.__file__).parent / "schedulers/shipping/launch"


@pytest.fixture
def container(tmp_path: Path) -> Path:
    """A container's folder, with a program that says what runs it, and an empty PATH beside."""
    place = tmp_path / "tony"
    place.mkdir()
    for name in ("start.sh", "start.py"):
        shutil.copy(LAUNCH / name, place)
    with zipfile.ZipFile(place / "programs.zip", "w") as programs:
        programs.writestr("tony_program/__init__.py", "")
        programs.writestr(
            "tony_program/main.py",
            "import sys\ndef main():\n    print(sys.executable, sys.flags.isolated, sys.flags.no_site, sys.argv[1:])\n"
            "    return 7\n",
        )
    (tmp_path / "bin").mkdir()
    os.symlink(shutil.which("uname") or "", tmp_path / "bin/uname")
    return tmp_path


def start(container: Path, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "tony/start.sh", "tony_program.main", "one", "two"],
        cwd=container,
        env={"PATH": str(container / "bin"), "TONY_PYTHON_SETTING": "scheduler.yarn.python", **(environ or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
DOCKER = {"YARN_CONTAINER_RUNTIME_TYPE": "docker", "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": "library/python:3.13"}


def start_below(ancestor: str, container: Path, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Starts the program as a grandchild of a process with this word in its command line."""
    command = ["/bin/sh", "-c", "sh tony/start.sh tony_program.main; exit"]
    call = f"import subprocess, sys; sys.exit(subprocess.call({command}))"
    return subprocess.run(
        [sys.executable, "-c", call, ancestor],
        cwd=container,
        env={"PATH": f"{container / 'bin'}:/bin:/usr/bin", **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_an_image_that_the_node_did_not_use(container: Path) -> None:
    """YARN without Docker ignores the variables; a job that asks for an image is not to run without it."""
    python(container / "bin/python3")
    done = start_below(NODE_MANAGER, container, {**DOCKER, "TONY_IMAGE_PLACE": "roles.worker.image, job.toml:5"})
    assert (done.stdout, done.returncode) == ("", 127)
    assert mentions(
        done.stderr,
        os.uname().nodename,
        "library/python:3.13",
        "job.toml:5",
        "NodeManager",
        "yarn.nodemanager.container-executor.class",
        "yarn.nodemanager.runtime.linux.allowed-runtimes",
    )


@pytest.mark.parametrize(("ancestor", "environ"), [("dockerd", DOCKER), (NODE_MANAGER, {})], ids=["docker", "no-image"])
def test_a_container_with_its_requested_image(container: Path, ancestor: str, environ: Mapping[str, str]) -> None:
    """In Docker no NodeManager is an ancestor of the program; without an image there may be one."""
    python(container / "bin/python3")
    done = start_below(ancestor, container, environ)
    assert (done.stderr, done.returncode) == ("", 7)


def python(path: Path) -> Path:
    """A link to a Python that will do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(sys.executable)
    return path


def old_python(path: Path) -> Path:
    """A Python of which `start.py` thinks that it is old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    code = (
        "import runpy, sys; sys.version_info = (3, 9, 2, 'final', 0); "
        f"sys.executable = {str(path)!r}; sys.argv = sys.argv[3:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    path.chmod(0o755)
    return path


def test_python_of_the_node(container: Path) -> None:
    """The program gets its arguments, its exit code counts, and nothing but the standard library is seen."""
    found = python(container / "bin/python3")
    done = start(container)
    assert (done.stdout, done.stderr, done.returncode) == (f"{found} 1 1 ['one', 'two']\n", "", 7)


def test_python_with_another_name(container: Path) -> None:
    """Nodes may have only `python3.13`."""
    found = python(container / "bin/python3.13")
    assert start(container).stdout.startswith(f"{found} ")


def test_the_setting_takes_precedence(container: Path) -> None:
    """A path, a name on PATH, or a path in the container's own folder."""
    python(container / "bin/python3")
    there = python(container / "elsewhere/python")
    assert start(container, {"TONY_PYTHON": str(there)}).stdout.startswith(f"{there} ")
    named = python(container / "bin/mypython")
    assert start(container, {"TONY_PYTHON": "mypython"}).stdout.startswith(f"{named} ")
    python(container / "tony-python/bin/python3")
    assert "tony-python/bin/python3 1 1" in start(container, {"TONY_PYTHON": "./tony-python/bin/python3"}).stdout


@pytest.mark.parametrize("named", ["/nowhere/python", "mypython"])
@pytest.mark.parametrize("place", ["", ", job.toml:7"])
def test_setting_that_names_nothing(container: Path, named: str, place: str) -> None:
    """Nothing else is taken in its place: it may be a slip of the pen. Host, setting, its place, what there is."""
    found = python(container / "bin/python3")
    done = start(container, {"TONY_PYTHON": named, **({"TONY_PYTHON_PLACE": place} if place else {})})
    assert (done.returncode, done.stdout) == (127, "")
    host = os.uname().nodename
    begin = f"tony: there is no {named} on host {host} (scheduler.yarn.python{place}): PATH is {container / 'bin'}"
    assert done.stderr.startswith(f"{begin}, with {found} on it. Set it to one that every node has")
    found.unlink()
    assert start(container, {"TONY_PYTHON": named}).stderr.startswith(
        f"tony: there is no {named} on host {host} (scheduler.yarn.python): PATH is {container / 'bin'}. Set it to"
    )


def test_setting_that_names_an_old_one(container: Path) -> None:
    """A newer one beside it is not taken either."""
    old = old_python(container / "elsewhere/python3")
    python(container / "bin/python3.12")
    done = start(container, {"TONY_PYTHON": str(old), "TONY_PYTHON_PLACE": ", --set"})
    assert (done.returncode, done.stdout) == (1, "")
    assert mentions(done.stderr, "own", "3.11", old, os.uname().nodename, "3.9", "--set")


@pytest.mark.parametrize("top", ["", "conda/"])
def test_python_of_the_environment(container: Path, top: str) -> None:
    """That of the job's archive, whatever the node has; its folder may have one around it."""
    python(container / "bin" / "python3")
    python(container / "packed" / f"{top}bin/python3")
    _with_tar(container)
    done = start(container, {"TONY_ENVIRONMENT": "digest"})
    assert done.stdout.startswith(f"{container / '.environment' / top / 'bin/python3'} 1 1"), done.stderr


def test_an_environment_without_python(container: Path) -> None:
    """It is said, and nothing else is taken instead."""
    python(container / "bin" / "python3")
    (container / "packed/bin").mkdir(parents=True)
    _with_tar(container)
    done = start(container, {"TONY_ENVIRONMENT": "digest"})
    assert (done.returncode, done.stdout) == (127, "")
    assert mentions(done.stderr, "bin/python3")
    (container / "digest").write_bytes(b"no archive")
    assert start(container, {"TONY_ENVIRONMENT": "digest"}).returncode not in (0, 127)


def _with_tar(container: Path) -> None:
    """A node's usual tools, and `packed` as an archive."""
    for tool in ("mkdir", "tar"):
        os.symlink(shutil.which(tool) or "", container / "bin" / tool)
    with tarfile.open(container / "digest", "w") as archive:
        archive.add(container / "packed", arcname=".")


def test_no_python(container: Path) -> None:
    """Host, PATH and what to do are told, on one line, where YARN shows it."""
    done = start(container)
    assert done.returncode == 127
    assert mentions(
        done.stderr,
        "own",
        "environment",
        "python3",
        os.uname().nodename,
        "PATH",
        container / "bin",
        "3.11",
        "scheduler.yarn.python",
    )


def test_old_python(container: Path) -> None:
    found = old_python(container / "bin/python3")
    done = start(container)
    assert done.returncode == 1
    assert mentions(
        done.stderr,
        "own",
        "3.11",
        found,
        os.uname().nodename,
        "3.9",
        "PATH",
        container / "bin",
        "scheduler.yarn.python",
    )


def test_a_newer_python_next_to_an_old_one(container: Path) -> None:
    """`python3` of an older system, with a newer one installed beside it."""
    old_python(container / "bin/python3")
    found = python(container / "bin/python3.12")
    done = start(container)
    assert (done.stdout, done.returncode) == (f"{found} 1 1 ['one', 'two']\n", 7)


def test_source_is_read_by_old_pythons() -> None:
    """Whatever came after 3.4 would be an error in its grammar there, and hide what we have to say."""
    import ast

    ast.parse((LAUNCH / "start.py").read_text(), feature_version=(3, 4))
