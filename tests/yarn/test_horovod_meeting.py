"""Horovod's ranks on several hosts, played: whom they meet follows from where the cluster has put them."""

from __future__ import annotations

import pytest

from tests.e2e.test_horovod_meeting import RANK, circles
from tests.yarn.lab import YarnLab

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change("hadoop", "schedulers", "mini")]


def test_ranks_meet_by_host(lab: YarnLab) -> None:
    """Two tasks that no node has room for together, and two small ones wherever they fit."""
    job = lab.job(
        """
        framework = "horovod"
        command = "python3 rank.py"
        [roles.chief]
        memory = "2500m"
        [roles.worker]
        memory = "2500m"
        [roles.helper]
        instances = 2
        """,
        {"rank.py": RANK},
    )
    done = lab.submit(job)
    assert done.returncode == 0, done.stderr
    host_of = {task: each["host"] for task, each in lab.tasks(lab.only_job()).items()}
    tasks = ["chief:0", "worker:0", "helper:0", "helper:1"]
    hosts = list(dict.fromkeys(host_of[task] for task in tasks))
    assert len(hosts) > 1
    on = {host: [task for task in tasks if host_of[task] == host] for host in hosts}
    levels = [[on[host][level] for host in hosts if len(on[host]) > level] for level in range(3)]
    met = circles(done.stdout)
    assert met["global"] == dict.fromkeys(tasks, " ".join(task for host in hosts for task in on[host]))
    assert met["local"] == {task: " ".join(on[host_of[task]]) for task in tasks}
    assert met["cross"] == {task: " ".join(level) for level in levels for task in level}
