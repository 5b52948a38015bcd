"""Two users on one machine: one runs jobs, the other one tries to stop them, to mute them, and to read their secrets.

What needs no job is tested where the code is: the ledger's lock and hostile claims
(`schedulers/local/claims/test_ledger.py`), squatted folders (`schedulers/local/claims/test_ledger_location.py`), floods
of progress reports (`executor/metrics/test_progress_listener.py`), `py-spy` of another user
(`executor/program/test_stack_dump.py`), unfinished requests at the Horovod store
(`executor/network/test_rendezvous_store.py`), floods of connections (`rpc/test_unauthenticated_clients.py`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.lab import CEILING, Lab, until
from tests.e2e.test_tensorboard import portal_of
from tests.e2e.tunnel_server import proxied
from tests.failure_modes.unknown_users import UID, become_other_user

pytestmark = pytest.mark.e2e

NEIGHBOUR_UID = UID + 1
SCRIPT = Path(__file__).with_name("hostile_user.py")
CANARY = "canary-of-the-victim"
TRAIN = """\
import http.server, threading, time, tony
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], "is served", flush=True)
step = 0
while True:
    step += 1
    tony.progress(step)
    time.sleep(0.02)
"""


def as_neighbour(lab: Lab, *arguments: str) -> list[str]:
    """A command line that runs the script as the other user."""
    become = [word.replace(str(UID), str(NEIGHBOUR_UID)) if "=" in word else word for word in lab.prefix]
    return [*become, sys.executable, "-I", "-c", SCRIPT.read_text(), *arguments]


@contextmanager
def claiming(lab: Lab, ledger: Path) -> Iterator[None]:
    """The other user claims more than the machine has."""
    command = as_neighbour(lab, "claim", str(ledger))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd="/") as hog:
        try:
            assert hog.stdout
            assert hog.stdout.readline() == "ready\n"
            yield
        finally:
            hog.kill()


def newest_step(lab: Lab, job: str) -> float:
    """The newest step that the application master knows."""
    done = lab.tony("metrics", job, "--json")
    assert done.returncode == 0, done.stderr
    found = [series["most"] for series in json.loads(done.stdout) if series["series"] == "step"]
    return float(found[0][-1]) if found else 0.0


def test_a_bad_neighbour(lab: Lab) -> None:
    """The job runs beside a hostile claim; no socket, port or environment of it is open to the other user."""
    owner = become_other_user(lab)
    owner.root.chmod(0o711)
    ledger = owner.root / "ledger"
    ledger.mkdir()
    ledger.chmod(0o1777)
    with claiming(owner, ledger):
        file = owner.job_file(
            f'command = "python3 train.py"\nmetrics_interval = "200ms"\nenv = {{ CANARY_TOKEN = "{CANARY}" }}\n',
            {"train.py": TRAIN},
        )
        job = owner.detach(file)
        port = owner.wait_output(job, "main:0", "is served").split()[0]
        with portal_of(owner) as portal, proxied(owner, job, f"main:0:{port}") as (_, proxy_port):
            portal_port = portal.rpartition(":")[2]
            command = as_neighbour(owner, "spy", CANARY, str(owner.root), portal_port, str(proxy_port))
            done = subprocess.run(command, capture_output=True, text=True, timeout=CEILING, cwd="/", check=True)
            got = json.loads(done.stdout)
            step = newest_step(owner, job)
            until(lambda: newest_step(owner, job) > step, "the job's reports arrive")
    assert (got["environments"], got["sockets"]) == ([], [])
    portal_answer, proxy_answer = got["answers"]
    assert portal_answer.split(" ")[1] == "401"
    assert proxy_answer == ""
    assert owner.tony("kill", job).returncode == 0
    owner.wait(job)
