"""Jobs under `framework = "horovod"` whose programs speak as Horovod's own do: they meet, in every session, and alone.

The real thing is in test_examples.py, for those who have built it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e

#: A rank of Horovod, played.
RANK = (Path(__file__).parents[1] / "executor" / "horovod_client.py").read_text(encoding="utf-8")


#: One that sees the others there, and ends.
LEAVES = """
import os, sys
from rank import wait_for

for peer in range(2):
    wait_for(int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]), f"/global/{peer}")
sys.exit(3)
"""


def circles(printed: str) -> dict[str, dict[str, str]]:
    """Circle -> task -> whom it met there, in the order of ranks."""
    found: dict[str, dict[str, str]] = {}
    for task, circle, met in re.findall(r"([a-z]+:\d+)[^|\n]*\| (global|local|cross) (.*)", printed):
        found.setdefault(circle, {})[task] = met.strip()
    return found


def test_ranks_meet_in_every_session(lab: Lab) -> None:
    """Three tasks on one host; the second session finds nothing of the first.

    In the first one rank leaves without a word as soon as the others have left theirs.
    """
    job = lab.job_file(
        """
        framework = "horovod"
        command = "python rank.py"
        max_restarts = 1

        [roles.chief]
        [roles.worker]
        instances = 2
        command = "if [ $SESSION_ID.$TASK_INDEX = 1.1 ]; then exec python leaves.py; fi; exec python rank.py"
        """,
        {"rank.py": RANK, "leaves.py": LEAVES},
    )
    done = lab.submit(job)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    everybody = "chief:0 worker:0 worker:1"
    met = circles(printed)
    assert met["global"] == dict.fromkeys(["chief:0", "worker:0", "worker:1"], everybody)
    assert met["local"] == met["global"]
    assert met["cross"] == {"chief:0": "chief:0", "worker:0": "worker:0", "worker:1": "worker:1"}
    assert lab.status(lab.only_job())["session"] == 2


def test_a_driver_of_ones_own(lab: Lab) -> None:
    """Its rendezvous server takes the place of ours, however late it comes; it is stopped when the workers are done."""
    job = lab.job_file(
        """
        framework = "horovod"

        [roles.worker]
        instances = 2
        command = "python rank.py"

        [roles.driver]
        kind = "untracked"
        command = "python driver.py"
        """,
        {"rank.py": RANK, "driver.py": DRIVER},
    )
    done = lab.submit(job)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert circles(printed)["global"] == {"worker:0": "worker:0 worker:1", "worker:1": "worker:0 worker:1"}
    assert re.search(r"driver:0[^|\n]*\| 127\.0\.0\.1:2 127\.0\.0\.1:2\n", printed)
    assert re.search(r"driver:0[^|\n]*\| was asked", printed)
    assert lab.tasks(lab.only_job())["driver:0"]["state"] == "stopped"


#: As the original's users wrote theirs: a server on a port of its own choice, and a file that names it.
DRIVER = """
import json, os, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

print(os.environ["CLUSTER_SPEC"], os.environ["CLUSTER_WORKER_LIST"], flush=True)
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
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
slots = [{"hostname": "127.0.0.1", "rank": rank, "localRank": rank, "size": 2} for rank in range(2)]
path = os.path.join(os.environ["DRIVER_OUTPUT_PATH"], f"{server.server_port}____HOROVOD_RENDEZVOUS_SERVER____")
with open(path, "w") as file:
    json.dump(slots, file)
server.serve_forever()
"""
