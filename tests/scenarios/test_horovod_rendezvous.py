"""Jobs under `framework = "horovod"` whose programs speak as Horovod's own do: they meet, in every session, by host.

The real thing is in test_examples.py, for those who have built it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.lab import Lab
from tests.scenarios.conftest import only_on

pytestmark = pytest.mark.e2e

#: A fake rank of Horovod.
RANK = (Path(__file__).parents[1] / "executor" / "horovod_client.py").read_text(encoding="utf-8")


#: One that sees the others there, and ends.
LEAVES = """
import os, sys
from rank import wait_for

for peer in range(2):
    host, port = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    wait_for(port, f"/global/{peer}", host=host)
sys.exit(3)
"""


def circles(printed: str) -> dict[str, dict[str, str]]:
    """Scope -> task -> the peers it met there, in the order of ranks."""
    found: dict[str, dict[str, str]] = {}
    for task, circle, met in re.findall(r"([a-z]+:\d+)[^|\n]*\| (global|local|cross) (.*)", printed):
        found.setdefault(circle, {})[task] = met.strip()
    return found


def hosts_of(lab: Lab, tasks: list[str]) -> dict[str, list[str]]:
    """Host -> its tasks, hosts in the order of their first task."""
    host_of = {task: each["host"] for task, each in lab.tasks(lab.only_job()).items()}
    hosts = dict.fromkeys(host_of[task] for task in tasks)
    return {host: [task for task in tasks if host_of[task] == host] for host in hosts}


def expected(hosts: dict[str, list[str]]) -> dict[str, dict[str, str]]:
    ranked = [task for tasks in hosts.values() for task in tasks]
    levels = [[tasks[level] for tasks in hosts.values() if len(tasks) > level] for level in range(len(ranked))]
    return {
        "global": dict.fromkeys(ranked, " ".join(ranked)),
        "local": {task: " ".join(tasks) for tasks in hosts.values() for task in tasks},
        "cross": {task: " ".join(level) for level in levels for task in level},
    }


@only_on("local", why="sessions meet alike everywhere; on YARN, over hosts: test_ranks_meet_by_host")
def test_ranks_meet_in_every_session(lab: Lab) -> None:
    """Three tasks on one host; the second session finds nothing of the first.

    In the first one rank leaves without a word as soon as the others have left theirs.
    """
    job = lab.job(
        """
        framework = "horovod"
        command = "python3 rank.py"
        max_restarts = 1

        [roles.chief]
        [roles.worker]
        instances = 2
        command = "if [ $SESSION_ID.$TASK_INDEX = 1.1 ]; then exec python3 leaves.py; fi; exec python3 rank.py"
        """,
        {"rank.py": RANK, "leaves.py": LEAVES},
    )
    done = lab.submit(job)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    hosts = hosts_of(lab, ["chief:0", "worker:0", "worker:1"])
    assert len(hosts) == 1
    assert circles(printed) == expected(hosts)
    assert lab.status(lab.only_job())["session"] == 2


@only_on("local", why="the driver is a program like any other; on YARN ranks meet in test_ranks_meet_by_host")
def test_a_driver_of_ones_own(lab: Lab) -> None:
    """Its rendezvous server takes the place of ours, however late it comes; it is stopped when the workers are done."""
    job = lab.job(
        """
        framework = "horovod"

        [roles.worker]
        instances = 2
        command = "python3 rank.py"

        [roles.driver]
        kind = "untracked"
        command = "python3 driver.py"
        """,
        {"rank.py": RANK, "driver.py": DRIVER},
    )
    done = lab.submit(job)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    hosts = hosts_of(lab, ["worker:0", "worker:1"])
    assert circles(printed) == expected(hosts)
    slots = re.escape(",".join(f"{host}:{len(tasks)}" for host, tasks in hosts.items()))
    assert re.search(rf"driver:0[^|\n]*\| {slots} {slots}\n", printed)
    assert re.search(r"driver:0[^|\n]*\| was asked", printed)
    assert lab.tasks(lab.only_job())["driver:0"]["state"] == "stopped"


#: As LinkedIn TonY's users wrote theirs: a server on a port of its own choice, and a file that names it.
DRIVER = """
import json, os, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

print(f"{os.environ['CLUSTER_SPEC']} {os.environ['CLUSTER_WORKER_LIST']}", flush=True)
values = {}


class Handler(BaseHTTPRequestHandler):
    def do_PUT(self):
        values[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, b"")

    def do_GET(self):
        value = values.get(self.path)
        self.answer(404 if value is None else 200, value or b"")

    def do_DELETE(self):
        if not asked.is_set():
            asked.set()
            print("was asked", flush=True)
        self.answer(200, b"")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


asked = threading.Event()
server = ThreadingHTTPServer(("", 0), Handler)
slots = []
for host, _, count in (each.rpartition(":") for each in os.environ["CLUSTER_WORKER_LIST"].split(",")):
    for local in range(int(count)):
        slots.append({"hostname": host, "rank": len(slots), "localRank": local, "size": 2})
path = os.path.join(os.environ["DRIVER_OUTPUT_PATH"], f"{server.server_port}____HOROVOD_RENDEZVOUS_SERVER____")
with open(path, "w") as file:
    json.dump(slots, file)
server.serve_forever()
"""


@only_on("yarn", why="local has one host: test_ranks_meet_in_every_session")
def test_ranks_meet_by_host(lab: Lab) -> None:
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
    hosts = hosts_of(lab, ["chief:0", "worker:0", "helper:0", "helper:1"])
    assert len(hosts) > 1
    assert circles(done.stdout) == expected(hosts)
