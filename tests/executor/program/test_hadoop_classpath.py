"""CLASSPATH: the job's own jars, then what the node's Hadoop says; never a reason for a program not to start."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.executor.conftest import Start
from tests.executor.fake_am import Master
from tests.executor.program.test_program_environment import CONTAINER, TASK, task_with
from tests.executor.test_executor import ended, run
from tests.facts import mentions
from tests.support.waiting import block_until
from tony.executor.program import hadoop_classpath
from tony.executor.program.hadoop_classpath import HadoopClasspath, expand_folders, find, is_enabled
from tony.executor.program.spawn import Reaper
from tony.linux.process import is_alive
from tony.model.program_exit import ExitReason
from tony.protocol import executor_messages as msg
from tony.protocol.launch import ContainerPart

pytestmark = pytest.mark.slow


def hadoop(folder: Path, text: str) -> str:
    """A stand-in for the node's; answers the HADOOP_HOME that it is in."""
    program = folder / "hadoop-home" / "bin" / "hadoop"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/bash\n{text}\n")
    program.chmod(0o755)
    return str(folder / "hadoop-home")


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    """A node's Hadoop, and the job's own jar in its working directory."""
    for name in ("lib/b.jar", "lib/a.JAR", "lib/notes.txt", "work/own.jar"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def said(master: Master, guest: Start, folder: Path, home: str, **more: Any) -> tuple[str, str]:
    """What a program found as CLASSPATH, and the executor's log."""
    env = {"HADOOP_HOME": home, "CONF": str(folder / "conf"), "LIB": str(folder / "lib"), **more.pop("env", {})}
    executor = guest('echo "${CLASSPATH-not set}"', hadoop_classpath=True, env=env, **more)
    master.wait(msg.Ready)
    master.start()
    assert ended(master).code == 0
    return executor.read("worker-0.s1.t1.out").strip(), executor.log()


def test_the_nodes_hadoop_gives_the_class_path(master: Master, guest: Start, jars: Path) -> None:
    """In that order, with each jar of a folder by its name, as programs need it that start a JVM themselves."""
    home = hadoop(jars, '[ "$*" = classpath ] && echo "warning" >&2 && echo "$CONF:$LIB/*:$LIB/b.jar:/not/there/*"')
    classpath, log = said(master, guest, jars, home)
    assert classpath == f"./*:{jars}/work/own.jar:{jars}/conf:{jars}/lib/a.JAR:{jars}/lib/b.jar"
    assert "hadoop_classpath" not in log


def test_the_long_form_is_tried_when_the_short_one_is_refused(master: Master, guest: Start, jars: Path) -> None:
    home = hadoop(jars, '[ "$*" = "classpath --glob" ] && echo /x/one.jar || { echo no such command >&2; exit 3; }')
    classpath, log = said(master, guest, jars, home)
    assert classpath == f"./*:{jars}/work/own.jar:/x/one.jar"
    assert mentions(log, "code 3", "classpath")


def test_a_node_without_hadoop(master: Master, guest: Start, jars: Path) -> None:
    """The job's own jars are there, and the log says why no more is."""
    classpath, log = said(master, guest, jars, "", env={"PATH": "/usr/bin:/bin"})
    assert classpath == f"./*:{jars}/work/own.jar"
    assert "`hadoop` not found" in log


def test_a_hadoop_that_hangs(master: Master, guest: Start, jars: Path) -> None:
    """Who is stopped meanwhile is stopped at once, and nothing of it is left."""
    home = hadoop(jars, "sleep 1000")
    executor = guest("echo never", hadoop_classpath=True, env={"HADOOP_HOME": home})
    master.wait(msg.Ready)
    master.start()
    master.send(msg.StopProgram(session=1, grace=0.0, reason="enough"))
    status = ended(master)
    assert status.reason is ExitReason.NOT_STARTED
    master.send(msg.ReleaseExecutor(grace=1.0))
    assert executor.wait() == 0
    assert executor.programs() == []


class OneChild:
    """Waits for one child, and no other of this process."""

    def watch(self, pid: int, tell: Callable[[int, None], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, lambda: loop.call_soon_threadsafe(tell, os.waitpid(pid, 0)[1], None))


def asked_twice(home: str, container: ContainerPart) -> str:
    """What is known of it, the same both times."""

    async def twice() -> str:
        own = {"HADOOP_HOME": home, "PATH": "/usr/bin:/bin"}
        asked = HadoopClasspath(TASK, container, own, cast(Reaper, OneChild()))
        first = await asked.wait_for_classpath()
        assert await asked.wait_for_classpath() == first
        return first

    return asyncio.run(twice())


def test_a_hadoop_that_never_answers(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program waits for it no longer than that, and is started without."""
    monkeypatch.setattr(hadoop_classpath, "_TIMEOUT_SECONDS", 0.2)
    home = hadoop(jars, f"echo $$ > {jars}/pid; sleep 1000")
    container = replace(CONTAINER, work_folder=str(jars / "work"))
    assert asked_twice(home, container) == f"./*:{jars}/work/own.jar"
    block_until(lambda: not (jars / "pid").exists() or not is_alive(int((jars / "pid").read_text())))


def test_a_class_path_too_long_for_linux(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders stay folders then: JVMs know what is meant."""
    monkeypatch.setattr(hadoop_classpath, "_MAX_BYTES", 200)
    home = hadoop(jars, f"echo {jars}/lib/*:$(printf '/x%.0s' $(seq 100))")
    container = replace(CONTAINER, work_folder=str(jars / "work"))
    assert f":{jars}/lib/*:/x/x" in asked_twice(home, container)


def test_a_classpath_in_env_replaces_the_nodes(master: Master, guest: Start, jars: Path) -> None:
    """A CLASSPATH in `env` is all of it."""
    home = hadoop(jars, "echo /x")
    classpath, _ = said(master, guest, jars, home, env={"CLASSPATH": "/mine"})
    assert classpath == "/mine"


def test_without_the_setting_there_is_no_variable(master: Master, guest: Start, jars: Path) -> None:
    status = run(master, guest, '[ -z "${CLASSPATH+x}" ]', env={"HADOOP_HOME": hadoop(jars, "echo /x")})
    assert status.code == 0


@pytest.mark.parametrize(
    ("wanted", "own", "more"),
    [
        (True, {}, {}),
        (True, {"CLASSPATH": "/of/the/shell"}, {}),
        (True, {"SKIP_HADOOP_PATH": "false"}, {}),
        (False, {}, {"hadoop_classpath": False}),
        (False, {}, {"env": {"CLASSPATH": "/mine"}}),
        (False, {}, {"container_env": {"CLASSPATH": "/mine"}}),
        (False, {}, {"env": {"SKIP_HADOOP_PATH": "true"}}),
        (False, {}, {"container_env": {"SKIP_HADOOP_PATH": "True"}}),
        (False, {"SKIP_HADOOP_PATH": "true"}, {}),
    ],
)
def test_who_gets_the_hadoop_class_path(wanted: bool, own: dict[str, str], more: dict[str, Any]) -> None:
    """LinkedIn TonY's users switch it off by SKIP_HADOOP_PATH."""
    task = task_with(**{"hadoop_classpath": True, **more})
    assert is_enabled(task, CONTAINER, own) == wanted


def test_where_it_is_looked_for(tmp_path: Path) -> None:
    """HADOOP_HOME, HADOOP_PREFIX, then PATH; only what may be executed."""
    for name in ("home", "prefix", "path"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "hadoop").touch(0o755)
    environment = {
        "HADOOP_HOME": f"{tmp_path}/home",
        "HADOOP_PREFIX": f"{tmp_path}/prefix",
        "PATH": f"relative::{tmp_path}:{tmp_path}/path/bin",
    }
    assert find(environment) == f"{tmp_path}/home/bin/hadoop"
    os.chmod(tmp_path / "home" / "bin" / "hadoop", 0o644)
    assert find(environment) == f"{tmp_path}/prefix/bin/hadoop"
    assert find({**environment, "HADOOP_PREFIX": ""}) == f"{tmp_path}/path/bin/hadoop"
    assert find({"PATH": "/usr/bin"}) is None


def test_folders_of_jars(tmp_path: Path) -> None:
    """As Java's launcher reads them; a folder without any is nothing."""
    (tmp_path / "a.jar").touch()
    assert expand_folders(["/conf", f"{tmp_path}/*", f"{tmp_path}/a.jar", "/none/*", "/conf"]) == [
        "/conf",
        f"{tmp_path}/a.jar",
    ]
