"""Every setting of LinkedIn TonY becomes what the table says, or its reason is told; the table has all of them."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from tests.config.legacy.jobs import COMMAND, drafted, list_errors, notes, spec
from tests.facts import mention_each
from tony.config.legacy.keys import KEYS, RESERVED, VARIABLES, row_of
from tony.config.table.schema_tree import find

TWO = {"tony.worker.instances": "2", "tony.ps.instances": "1"}
DOCKER = {"tony.docker.enabled": "true"}
GROUP = {"tony.application.group.All": "worker", "tony.evaluator.instances": "1"}
LIMIT = "tony.application.dependency.<type>.timeout.after.<group>"
LIMITED = {**GROUP, "tony.application.dependency.evaluator.timeout.after.All": "60"}

#: Row -> the key as a job has it, its value, what else is set; our key, its value.
BECOMES: dict[str, tuple[str, str, dict[str, str], str, Any]] = {
    "tony.application.name": ("", "mnist", {}, "name", "mnist"),
    "tony.application.type": ("", "TF", {}, "scheduler.yarn.application_type", "TF"),
    "tony.application.tags": ("", "a, b,", {}, "scheduler.yarn.tags", "a,b"),
    "tony.application.framework": ("", "PyTorch", {}, "framework", "pytorch"),
    "tony.application.distributed-mode": ("", "FCFS", {}, "distributed_mode", "fcfs"),
    "tony.yarn.queue": ("", "ml", {}, "scheduler.yarn.queue", "ml"),
    "tony.application.node-label": ("", "gpu", {}, "scheduler.yarn.node_label", "gpu"),
    "tony.application.placement-spec": ("", "zk,NOTIN,NODE,zk", {}, "scheduler.yarn.placement", "zk,NOTIN,NODE,zk"),
    "tony.application.timeout": ("", "90000", {}, "job_timeout", "90s"),
    "tony.application.enable-preprocess": ("", "true", {}, "roles.preprocess.kind", "setup"),
    "tony.application.prepare-stage": ("", "worker", {}, "roles.ps.after", ["worker"]),
    "tony.application.training-stage": ("", "ps", {}, "roles.ps.after", ["worker"]),
    "tony.application.hadoop.location": (
        "", "hdfs:///h/hadoop.tgz#hadoop", {"tony.application.hadoop.classpath": "hadoop/*"},
        "files", ["hdfs:///h/hadoop.tgz::hadoop#archive"],
    ),
    "tony.application.hadoop.classpath": (
        "", "hadoop/a/*, hadoop/b", {"tony.application.hadoop.location": "hdfs:///h.tgz#hadoop"},
        "env.CLASSPATH", "./*:hadoop/a/*:hadoop/b",
    ),
    "tony.application.hdfs-conf-path": ("", "conf/hdfs-site.xml", {}, "scheduler.yarn.conf", "{folder}/conf"),
    "tony.application.yarn-conf-path": ("", "{folder}/conf/any.xml", {}, "scheduler.yarn.conf", "{folder}/conf"),
    "tony.other.namenodes": ("", "hdfs://a, hdfs://b", {}, "scheduler.yarn.file_systems", "hdfs://a,hdfs://b"),
    "tony.application.untracked.jobtypes": ("", "worker", {}, "roles.worker.kind", "untracked"),
    "tony.application.sidecar.jobtypes": ("", "worker", {}, "roles.worker.kind", "sidecar"),
    "tony.application.stop-on-failure-jobtypes": ("", "worker", {}, "roles.worker.stop_on_failure", True),
    "tony.application.fail-on-worker-failure-enabled": ("", "true", {}, "failure_policy", "any-task"),
    "tony.application.group.<group>": ("tony.application.group.A", "worker, ps", {}, "groups.A", ["worker", "ps"]),
    LIMIT: (
        "tony.application.dependency.evaluator.timeout.after.All", "3600", GROUP,
        "roles.evaluator.timeout_after", {"group": "All", "limit": "1h"},
    ),
    f"{LIMIT}.ignored": (
        "tony.application.dependency.evaluator.timeout.after.All.ignored", "true", LIMITED,
        "roles.evaluator.timeout_after.on_timeout", "ignore",
    ),
    "tony.task.metrics-interval-ms": ("", "2500", {}, "metrics_interval", "2.5s"),
    "tony.am.memory": ("", "4096", {}, "scheduler.yarn.am_memory", "4g"),
    "tony.am.vcores": ("", "3", {}, "scheduler.yarn.am_vcores", 3),
    "tony.am.gpus": ("", "2", {"tony.worker.instances": "0", "tony.ps.instances": "0"}, "roles.main.gpus", 2),
    "tony.am.retry-count": ("", "2", {}, "max_restarts", 2),
    "tony.am.startup-timeout": ("", "10000", {}, "queue_timeout", "10s"),
    "tony.am.node-label": ("", "cpu", {}, "scheduler.yarn.am_node_label", "cpu"),
    "tony.am.command": (
        "", "run me", {"tony.worker.instances": "0", "tony.ps.instances": "0"},
        "roles.main.command", "run me",
    ),
    "tony.am.resources": (
        "", "a.txt", {"tony.worker.instances": "0", "tony.ps.instances": "0"}, "roles.main.files", ["a.txt"]
    ),
    "tony.task.heartbeat-interval-ms": ("", "500", {}, "heartbeat_interval", "500ms"),
    "tony.task.max-missed-heartbeats": ("", "40", {}, "heartbeat_timeout", "40s"),
    "tony.task.executor.execution-timeout-ms": ("", "3000", {}, "execution_timeout", "3s"),
    "tony.task.executor.registry-timeout-sec": ("", "30", {}, "registration_timeout", "30s"),
    "tony.container.allocation.timeout": ("", "1000", {}, "allocation_timeout", "1s"),
    "tony.container.registration.timeout": ("", "900000", {}, "registration_timeout", "15m"),
    "tony.containers.resources": ("", "a.zip#archive,,b::c", {}, "files", ["a.zip#archive", "b::c"]),
    "tony.containers.command": ("", "echo {role}", {}, "command", "echo {{role}}"),
    "tony.containers.envs": ("", "A=1", {}, "container_env.A", "1"),
    "tony.execution.envs": ("", "A={role}", {}, "env.A", "{{role}}"),
    "tony.containers.placement-spec": ("", "notin,node,ps", {}, "roles.worker.yarn.placement", "notin,node,ps"),
    "tony.containers.allocation-tags": ("", "a,b", {}, "roles.ps.yarn.placement_tags", ["a", "b"]),
    "tony.<type>.instances": ("tony.worker.instances", "7", {}, "roles.worker.instances", 7),
    "tony.<type>.memory": ("tony.worker.memory", "3", {}, "roles.worker.memory", "3m"),
    "tony.<type>.vcores": ("tony.worker.vcores", "4", {}, "roles.worker.vcores", 4),
    "tony.<type>.gpus": ("tony.worker.gpus", "1", {}, "roles.worker.gpus", 1),
    "tony.<type>.resources": ("tony.worker.resources", "file:///x", {}, "roles.worker.files", ["/x"]),
    "tony.<type>.command": ("tony.worker.command", "run", {}, "roles.worker.command", "run"),
    "tony.<type>.node-label": ("tony.worker.node-label", "gpu", {}, "roles.worker.node_label", "gpu"),
    "tony.<type>.placement-spec": ("tony.worker.placement-spec", "in,rack,ps", {}, "roles.worker.yarn.placement",
                                   "in,rack,ps"),
    "tony.<type>.allocation-tags": ("tony.worker.allocation-tags", "w", {}, "roles.worker.yarn.placement_tags", ["w"]),
    "tony.docker.enabled": ("", "true", {"tony.docker.containers.image": "i"}, "scheduler.yarn.docker_image", "i"),
    "tony.docker.containers.image": ("", "tf:2", DOCKER, "scheduler.yarn.docker_image", "tf:2"),
    "tony.docker.<type>.image": ("tony.docker.ps.image", "ps:1", DOCKER, "roles.ps.image", "ps:1"),
    "tony.docker.containers.mount": ("", "/a:/a:ro", DOCKER, "scheduler.yarn.docker_mounts", "/a:/a:ro"),
    "tony.horovod.driver.mode.debug": (
        "", "true", {"tony.application.framework": "horovod"}, "roles.driver.kind", "untracked"
    ),
    "tony.application.tensorboard-log-dir": ("", "hdfs:///logs", {}, "roles.tensorboard.env.TB_LOG_DIR", "hdfs:///logs"),
}  # fmt: skip
#: Rows that are limits: they are checked, and nothing is made of them.
CHECKED = {"tony.task.max-total-instances", "tony.task.max-total-<resource>", "tony.<type>.max-instances"}


def test_the_table_covers_every_setting() -> None:
    """Each new row needs an entry here that says what becomes of the key."""
    assert {row.name for row in KEYS if row.becomes} == set(BECOMES) | CHECKED


@pytest.mark.parametrize("name", BECOMES)
def test_each_key_becomes_its_setting(tmp_path: Path, name: str) -> None:
    """Its value has the place that the table names, and its source is known there."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "core-site.xml").touch()
    key, value, more, ours, expected = BECOMES[name]
    key = key or name
    settings = {**COMMAND, **TWO, **more, key: value.format(folder=tmp_path) if "{folder}" in value else value}
    draft = drafted(tmp_path, settings)
    if isinstance(expected, str):
        expected = expected.replace("{folder}", str(tmp_path))
    assert draft.problems == []
    path = tuple(ours.split("."))
    assert reduce(lambda table, part: table[part], path, draft.values) == expected
    lines = [list(settings).index(each) + 2 for each in (key, *more)]
    assert draft.layers(tmp_path)[1].where(path) in [f"tony.xml:{line}" for line in lines]


@pytest.mark.parametrize("name", BECOMES)
def test_the_documented_settings_exist(name: str) -> None:
    row = next(row for row in KEYS if row.name == name)
    node = find(tuple("worker" if part.startswith("<") else part for part in row.becomes.split(".")))
    assert node is not None, row.becomes


@pytest.mark.parametrize("row", [row for row in KEYS if row.obsolete], ids=lambda row: row.name)
def test_obsolete_settings_are_reported(tmp_path: Path, row: Any) -> None:
    """With the place and the reason."""
    key = row.name.replace("<type>", "worker")
    assert notes(tmp_path, {**TWO, key: "true"}) == [f"{key} (tony.xml:5): has no effect. {row.obsolete}"]


def test_every_variable_is_reported_or_supported(tmp_path: Path) -> None:
    """Switches for tests are reported; the others are supported."""
    for variable in VARIABLES:
        key = {"programs": "tony.execution.envs", "containers": "tony.containers.envs"}.get(variable.where)
        if key:
            found = notes(tmp_path, {**TWO, key: f"{variable.name}=true"})
            assert found == ([f"{key} (tony.xml:5): {variable.name}: {variable.obsolete}"] if variable.obsolete else [])


def test_unknown_settings_stop_with_the_nearest_name(tmp_path: Path) -> None:
    """Fixed keys, a type's keys, and what nothing is near to."""
    found = list_errors(
        tmp_path,
        {
            **TWO,
            "tony.application.nam": "x",
            "tony.worker.memry": "2g",
            "tony.zzz": "1",
            "tony.worker.qqqqq": "1",
            "tony.foo.bar": "1",
            "tony.histroy.location": "/h",
            "tony.trainer.memry": "2g",
        },
    )
    lists = "LinkedIn TonY has none with a similar name."
    assert mention_each(
        found,
        ('tony.application.nam = "x" (tony.xml:5)', "tony.application.name"),
        ('tony.worker.memry = "2g" (tony.xml:6)', "tony.worker.memory"),
        ('tony.zzz = "1" (tony.xml:7)', lists),
        ('tony.worker.qqqqq = "1" (tony.xml:8)', lists),
        ('tony.foo.bar = "1" (tony.xml:9)', lists),
        ('tony.histroy.location = "/h" (tony.xml:10)', "tony.history.location"),
        ('tony.trainer.memry = "2g" (tony.xml:11)', "tony.trainer.memory"),
    )


def test_settings_of_others_are_left_alone_and_named(tmp_path: Path) -> None:
    """A file may hold Hadoop's, too."""
    found = notes(tmp_path, {**TWO, "mapreduce.job.queuename": "a", "yarn.x": "b"})
    said = "settings that do not begin with `tony.` are ignored: mapreduce.job.queuename, yarn.x."
    assert found == [f"mapreduce.job.queuename (tony.xml:5): {said}"]


def test_types_may_have_any_name_of_a_role(tmp_path: Path) -> None:
    """LinkedIn TonY overlooks all but lower-case letters without a word (G30)."""
    roles = spec(tmp_path, {"tony.my_worker-2.instances": "1", "tony.Head.instances": "2"}).roles
    assert {name: role.instances for name, role in roles.items()} == {"my_worker-2": 1, "Head": 2}


@pytest.mark.parametrize("word", sorted(RESERVED - {"am"}))
def test_words_that_have_a_meaning_are_no_types(tmp_path: Path, word: str) -> None:
    """LinkedIn TonY's own words, such as `task`, cannot be job types."""
    assert row_of(f"tony.{word}.instances") is None
    assert "unknown setting" in list_errors(tmp_path, {**TWO, f"tony.{word}.instances": "1"})[0]


def test_a_type_without_tasks_is_reported(tmp_path: Path) -> None:
    """Its name may be misspelled; one that is set to 0 is intended."""
    found = notes(tmp_path, {**TWO, "tony.wroker.memory": "3g", "tony.chief.instances": "0", "tony.chief.gpus": "1"})
    said = "type wroker has no tasks, so its settings have no effect; did you mean `worker`?"
    assert found == [f"tony.wroker.memory (tony.xml:5): {said}"]
