"""Tests of `tony.config.resolved_table`: each value with the place it came from."""

from __future__ import annotations

from pathlib import Path

from tests.config.jobs import resolve, write
from tony.config.resolved_table import list_resolved_rows

JOB = """
command = "python train.py"
stop_grace = "5s"
[roles.chief]
[roles.worker]
memory = "1.5g"
after = ["chief"]
command = ["a", "b"]
[roles.e]
after = { ended = ["chief"] }
stop_grace = "1s"
timeout_after = { group = "g", limit = "90s" }
[groups]
g = ["chief"]
[env]
HF_TOKEN = "x"
PROXY = "http://u:p@h"
[params]
lr = 0.10
"""


def test_values_come_with_their_places(tmp_path: Path) -> None:
    """Set ones, inherited ones, defaults; secrets are masked."""
    site = write(tmp_path, "max_restarts = 1\nscheduler.local.gpus = 2", "site.toml")
    resolved = resolve(tmp_path, JOB, sites=[site], sets=["tls=always", "params.x=1"])
    rows = {row.key: (row.value, row.source) for row in list_resolved_rows(resolved)}
    expected = {
        "name": (f'"{tmp_path.name}"', "default"),
        "command": ('"python train.py"', "job.toml:2"),
        "max_restarts": ("1", f"{site}:1"),
        "tls": ('"always"', "--set"),
        "job_timeout": ('"off"', "default"),
        "registration_timeout": ('"15m"', "default"),
        "scheduler.name": ('"local"', "default"),
        "scheduler.local.gpus": ("2", f"{site}:2"),
        "env.HF_TOKEN": ('"***"', "job.toml:16"),
        "env.PROXY": ('"http://u:***@h"', "job.toml:17"),
        "params.lr": ('"0.10"', "job.toml:19"),
        "params.x": ('"1"', "--set"),
        "groups.g": ('["chief"]', "job.toml:14"),
        "roles.chief.instances": ("1", "default"),
        "roles.chief.memory": ('"1g"', "default"),
        "roles.chief.command": ('"python train.py"', "job.toml:2"),
        "roles.chief.stop_grace": ('"5s"', "job.toml:3"),
        "roles.worker.memory": ('"1.5g"', "job.toml:6"),
        "roles.worker.command": ('["a", "b"]', "job.toml:8"),
        "roles.worker.after.succeeded": ('["chief"]', "job.toml:7"),
        "roles.e.after.ended": ('["chief"]', "job.toml:10"),
        "roles.e.stop_grace": ('"1s"', "job.toml:11"),
        "roles.e.timeout_after.limit": ('"90s"', "job.toml:12"),
        "roles.e.timeout_after.on_timeout": ('"fail"', "default"),
    }
    assert expected == {key: rows.get(key) for key in expected}
    assert "x" not in [value for value, _ in rows.values()]


def test_a_job_without_roles_shows_its_one_task(tmp_path: Path) -> None:
    """`main` is spelled out like any other role."""
    rows = {row.key: row for row in list_resolved_rows(resolve(tmp_path, 'command = "x"'))}
    assert ('"x"', "job.toml:1") == (rows["roles.main.command"].value, rows["roles.main.command"].source)


def test_rows_are_in_the_order_of_the_table(tmp_path: Path) -> None:
    """The job first, then its roles as the author has them."""
    keys = [row.key for row in list_resolved_rows(resolve(tmp_path, JOB))]
    assert ["name", "framework", "command"] == [key for key in keys if key not in ("tags", "viewers", "editors")][:3]
    roles = list(dict.fromkeys(key.split(".")[1] for key in keys if key.startswith("roles.")))
    assert ["chief", "worker", "e"] == roles


def test_ends_of_a_range_keep_their_places(tmp_path: Path) -> None:
    """A range of one number is that number."""
    text = 'command = "x"\n[roles.worker]\ninstances = { min = 2, max = 4 }\n'
    resolved = resolve(tmp_path, text, sets=["roles.worker.instances.max=8", "gang_wait=5s"])
    rows = {row.key: (row.value, row.source) for row in list_resolved_rows(resolved)}
    assert resolved.spec.roles["worker"].task_count_text == "2 to 8"
    assert rows["roles.worker.instances.min"] == ("2", "job.toml:3")
    assert rows["roles.worker.instances.max"] == ("8", "--set")
    assert rows["gang_wait"] == ('"5s"', "--set")
    assert rows["shrink_after"] == ('"30s"', "default")
    resolved = resolve(tmp_path, text, sets=["roles.worker.instances={min=4, max=4}"])
    assert resolved.spec.roles["worker"].task_count_text == "4"
    resolved = resolve(tmp_path, text, sets=["roles.worker.instances=3"])
    assert (resolved.spec.roles["worker"].instances, resolved.spec.elastic_roles) == (3, ())
