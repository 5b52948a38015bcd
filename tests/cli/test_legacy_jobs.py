"""Jobs of LinkedIn TonY through the commands that take a job file, and as job files of ours."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import Tony
from tests.config.legacy.jobs import write
from tests.facts import mention_each, mentions
from tony.cli.commands.legacy_submit import copy_settings_file
from tony.config.legacy.flags import Flags
from tony.errors import ConfigError
from tony.model.state_directory import Home

SMALL = {
    "tony.worker.instances": "2",
    "tony.worker.memory": "64m",
    "tony.containers.command": "echo I am $TASK_INDEX of $TASK_NUM, $GREETING {role}",
    "tony.containers.envs": "SKIP_HADOOP_PATH=true",
    "tony.execution.envs": "GREETING=hello",
    "tony.am.memory": "64m",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; no site file of this machine is found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TONY_CONF_DIR", str(tmp_path / "site"))
    monkeypatch.setenv("TONY_SET_SCHEDULER__LOCAL__LEDGER", str(tmp_path / "ledger"))
    return tmp_path


def test_submit(tony: Tony, folder: Path) -> None:
    """The XML is a job file; what has no effect is told, and why."""
    write(folder, {**SMALL, "tony.task.am.jvm.opts": "-Xmx1g", "tony.secret.key": "s"})
    answer = tony("submit", "tony.xml")
    assert answer.code == 0, answer.err
    for index in (0, 1):
        assert f"worker:{index} | I am {index} of 2, hello {{role}}\n" in answer.out
    assert mentions(answer.err, "tony.task.am.jvm.opts (tony.xml:8)", "JVM")
    assert "tony: tony.secret.key (tony.xml:9): " in answer.err


def test_validate(tony: Tony, folder: Path) -> None:
    """Every note with its reason, and every value with its line; for programs, too."""
    write(folder, {**SMALL, "tony.portal.url": "x"})
    said = "has no effect. A setting of LinkedIn TonY's portal. `tony portal` takes options instead."
    note = f"tony.portal.url (tony.xml:8): {said}"
    answer = tony("validate", "tony.xml")
    assert answer.code == 0
    assert mention_each(answer.out.splitlines(), ("tony.xml", "TensorFlowApplication", "worker 2"), (note,))
    rows = [line.split() for line in tony("validate", "tony.xml", "--resolved").out.splitlines()]
    assert ["roles.worker.memory", '"64m"', "tony.xml:3"] in rows
    assert ["failure_policy", '"chief-or-all"', "tony-default.xml"] in rows
    told = tony("validate", "tony.xml", "--json").json["notes"]
    assert [(each["key"], each["source"]) for each in told] == [("tony.portal.url", "tony.xml:8")]


def test_errors(tony: Tony, folder: Path) -> None:
    """All at once, with their lines; exit code 2."""
    write(folder, {**SMALL, "tony.worker.gpu": "1", "tony.worker.memory": "much"})
    for command in ("submit", "validate", "convert"):
        answer = tony(command, "tony.xml")
        assert (answer.code, answer.out) == (2, "")
        assert 'tony.worker.gpu = "1" (tony.xml:8): unknown setting; did you mean `tony.worker.gpus`?' in answer.err
        assert 'tony.worker.memory = "much" (tony.xml:3): not a size.' in answer.err


def test_no_command(tony: Tony, folder: Path) -> None:
    write(folder, {"tony.worker.instances": "1"})
    answer = tony("validate", "tony.xml")
    assert answer.code == 2
    assert "Set tony.containers.command, or use --executes 'python train.py';" in answer.err
    assert "use --set command='python train.py'" in answer.err


def test_convert(tony: Tony, folder: Path) -> None:
    write(folder, SMALL)
    answer = tony("convert", "tony.xml", "--shell_env", "GREETING=good day", "-conf", "tony.worker.instances=1")
    assert (answer.code, answer.err) == (0, "")
    job = tomllib.loads(answer.out)
    assert (job["env"], job["roles"]["worker"]["instances"]) == ({"GREETING": "good day"}, 1)
    (folder / "job.toml").write_text(answer.out, encoding="utf-8")
    run = tony("submit", "job.toml")
    assert run.code == 0
    assert "I am 0 of 1, good day {role}\n" in run.out


def test_convert_takes_only_flags_of_the_original(tony: Tony, folder: Path) -> None:
    write(folder, SMALL)
    answer = tony("convert", "tony.xml", "--src", "x")
    assert answer.code == 2
    assert mentions(answer.err, "--src (command line)", "--src_dir")
    assert answer.err.endswith("\ntony: 1 error in tony.xml\n"), "convert starts nothing in any case"


def test_a_settings_file_in_hdfs_needs_a_cluster(home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is said in its absence is refused; a path of this machine stays as it is."""
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    with (
        pytest.raises(ConfigError, match="Set HADOOP_CONF_DIR"),
        copy_settings_file(Flags(conf_file="hdfs:///t.xml")),
    ):
        pass
    for name in (None, "tony.xml", "file:///tony.xml"):
        with copy_settings_file(Flags(conf_file=name)) as flags:
            assert flags.conf_file == name
