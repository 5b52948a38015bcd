"""Reserved ports: free for the program that they were reserved for, and a thief is noticed."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from tests.e2e.lab import Lab, until

pytestmark = pytest.mark.e2e

#: Binds the port that the cluster spec gives it, as a plain server does; in session 1 not before it is asked to.
SERVER = """
import json, os, pathlib, socket, sys, time
host, port = json.loads(os.environ["CLUSTER_SPEC"])["worker"][int(os.environ["TASK_INDEX"])].split(":")
while os.environ["SESSION_ID"] == "1" and not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
with socket.create_server((host, int(port))) as server:
    print(f"serving on {server.getsockname()[1]}", flush=True)
"""


def test_a_program_can_bind_its_reserved_port(lab: Lab) -> None:
    """Each task listens on its own address of the cluster spec, inside the configured range."""
    (lab.root / "gate").touch()
    text = f"""
    framework = "tensorflow"
    command = "python x.py {lab.root}/gate"
    port_range = "42000-42999"
    [roles.worker]
    instances = 3
    """
    done = lab.submit(lab.job_file(text, {"x.py": SERVER}))
    assert done.returncode == 0, done.stdout + done.stderr
    ports = [int(port) for port in re.findall(r"serving on (\d+)", done.stdout)]
    assert len(set(ports)) == 3
    assert all(42000 <= port <= 42999 for port in ports)


def test_a_stolen_port_restarts_the_session_uncharged(lab: Lab) -> None:
    """max_restarts = 0, and still there is a second session with other ports; the reason is told."""
    text = f'framework = "tensorflow"\ncommand = "python x.py {lab.root}/gate"\n[roles.worker]\n'
    job = lab.detach(lab.job_file(text, {"x.py": SERVER}))
    lab.wait(job, "running")
    address = _address(lab, job)
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        thief.bind(address)
        thief.listen()
        (lab.root / "gate").touch()
        status = lab.wait(job)
    assert (status["state"], status["session"]) == ("succeeded", 2)
    log = (Path(status["folder"]) / "am.log").read_text()
    assert "does not count against max_restarts" in log
    assert str(address[1]) in log


def _address(lab: Lab, job: str) -> tuple[str, int]:
    def registered() -> tuple[str, int] | None:
        for event in lab.events_of(job, "registered"):
            host, _, port = event["address"].rpartition(":")
            return host, int(port)
        return None

    answer = until(registered, "the worker has registered")
    assert isinstance(answer, tuple)
    return answer


def test_an_exhausted_range_is_reported(lab: Lab) -> None:
    """The one port is taken: the message names the range, and the job fails instead of hanging."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = f'command = "true"\n[roles.one]\nport_range = "{port}-{port}"\n[roles.other]\n'
        done = lab.submit(lab.job_file(text))
        assert done.returncode == 3, done.stdout + done.stderr
        assert f"exit code 3: no port could be reserved: all 1 ports of port_range = {port}-{port}" in done.stderr
    assert json.loads(lab.tony("list", "--json").stdout)[0]["state"] == "failed"
