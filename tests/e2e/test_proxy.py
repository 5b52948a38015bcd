"""`tony proxy`: it forwards everything, delays nothing, and ends in order."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.e2e.lab import CEILING, Lab, until
from tests.e2e.tunnel_server import SERVER, call, echo, end, get, proxied, put, rest, wait_port

pytestmark = pytest.mark.e2e


def served(lab: Lab, text: str = "", *arguments: str) -> str:
    """A job of one task that serves; its id."""
    job = lab.detach(lab.job_file(f'command = "python3 server.py"\n{text}', {"server.py": SERVER}), *arguments)
    lab.wait_output(job, "main:0", "up")
    return job


@pytest.mark.parametrize("tls", ["auto", "always"], ids=["unix", "tls"])
def test_everything_arrives(lab: Lab, tls: str) -> None:
    """Much data both ways, each way ended by itself, many callers at once; the exit code is the job's."""
    job = served(lab, f'tls = "{tls}"\n')
    with proxied(lab, job, "main:0") as (process, port):
        get(port, 20_000_001)
        put(port, 20_000_001)
        put(port, 0)
        callers = [call(port, "echo") for _ in range(120)]
        for number, caller in enumerate(callers):
            caller.sendall(b"%d" % number)
        for number, caller in enumerate(callers):
            assert caller.recv(100) == b"%d" % number
        both = [threading.Thread(target=work, args=(port, 10_000_000)) for work in (get, put, get, put)]
        for thread in both:
            thread.start()
        echo(callers[0], b"x" * 100_000)
        for thread in both:
            thread.join(CEILING)
        callers[0].shutdown(socket.SHUT_WR)
        assert rest(callers[0]) == b""
        for caller in callers:
            caller.close()
        assert lab.status(job)["state"] == "running"
        lab.tony("kill", job)
        said, told = process.communicate(timeout=CEILING)
        assert (process.returncode, said) == (4, ""), told
        assert "killed" in told.splitlines()[-1]


def test_a_peer_that_does_not_read_delays_no_other(lab: Lab) -> None:
    """A bounded amount is buffered for it, other connections continue, and no byte is lost."""
    job = served(lab, 'heartbeat_timeout = "4s"\ntls = "always"\n')
    pids = [lab.status(job)["am"]["pid"], lab.tasks(job)["main:0"]["executor_pid"]]
    with proxied(lab, job, "main:0") as (process, port):
        wait_port(port)
        before = sum(map(memory, [*pids, process.pid]))
        sleeper = call(port, "get 300000000")
        deaf = call(port, "deaf")
        assert deaf.recv(1) == b"d"
        deaf.settimeout(0.5)
        with pytest.raises(TimeoutError):
            deaf.sendall(bytes(300 << 20))
        began = time.monotonic()
        while time.monotonic() < began + 5:  # longer than heartbeats may fail to come
            get(port, 100_000)
            assert lab.status(job)["state"] == "running"
        assert sum(map(memory, [*pids, process.pid])) - before < 60 << 20
        assert sleeper.recv(5) == b"\0\1\2\3\4"
        sleeper.close()
        deaf.close()
        assert lab.status(job)["session"] == 1
        get(port, 1000)
    lab.tony("kill", job, "--now")


def test_a_port_without_a_listener(lab: Lab) -> None:
    """The connection is closed, and the proxy reports why, once; it continues. Ctrl-C stops it and not the job."""
    job = served(lab)
    with proxied(lab, job, "main:0:1") as (process, port):
        for _ in range(3):
            with pytest.raises(ConnectionResetError), call(port, "echo") as caller:  # maybe before it has connected
                caller.recv(1)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=CEILING)
        assert process.returncode == 130
        host = lab.tasks(job)["main:0"]["host"]
        assert told.split("\n")[:-2] == [f"tony: port 1 of main:0 on {host}: nothing listens there"]
    assert lab.status(job)["state"] == "running"
    lab.tony("kill", job, "--now")


def test_the_port_of_the_task_is_found_again(lab: Lab) -> None:
    """The executor is killed: callers see that they are cut off. Its successor has another port, and the same proxy."""
    job = served(lab, 'max_restarts = 1\nbackoff = "0.1s"\n')
    with proxied(lab, job, "main") as (_, port):
        with call(port, "echo") as caller:
            echo(caller, b"hello")
            os.kill(lab.tasks(job)["main:0"]["executor_pid"], signal.SIGKILL)
            with pytest.raises(ConnectionResetError):
                caller.recv(1)
        until(lambda: lab.status(job)["session"] == 2, "the next session")
        wait_port(port)
        end(port, 3)
        assert lab.wait(job)["exit_code"] == 1


def test_the_end_of_the_master(lab: Lab) -> None:
    """It is killed: callers see it at once, and the next come through to the same program. After the last one the proxy
    ends as any follower of such a job."""
    job = served(lab, "am_attempts = 2\n")
    with proxied(lab, job, "main:0") as (process, port):
        for attempt in (1, 2):
            wait_port(port)
            with call(port, "echo") as caller:
                echo(caller, b"hello")
                assert lab.status(job)["attempt"] == attempt
                os.kill(lab.status(job)["am"]["pid"], signal.SIGKILL)
                with pytest.raises(ConnectionResetError):
                    caller.recv(1)
        process.wait(CEILING)
        assert process.returncode == 3


def test_from_python(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    import tony

    job = served(lab)
    monkeypatch.setenv("TONY_HOME", str(lab.home))
    with tony.attach(job).proxy("main:0") as there:
        assert there.address == "127.0.0.1"
        get(there.port, 100_000)
    with pytest.raises(ConnectionRefusedError):
        call(there.port, "echo")
    with pytest.raises(tony.UserError, match="has no task 'worker'"):
        tony.attach(job).proxy("worker")
    lab.tony("kill", job, "--now")


def test_impossible_requests_are_refused(lab: Lab) -> None:
    """With exit code 2 and a message, before anything listens."""
    job = lab.detach(lab.job_file('command = "sleep 3600"\n[roles.worker]\ninstances = 2\nmemory = "64m"\n'))
    lab.wait(job, "running")
    taken = socket.create_server(("127.0.0.1", 0))
    number = str(taken.getsockname()[1])
    for arguments, why in (
        (("worker",), "role worker has 2 tasks; name one of them: worker:0"),
        (("worker:2",), f"job {job} has no task 'worker:2'; it has worker:0, worker:1"),
        (("worker:0:0",), "'worker:0:0': write role:index:port such as worker:0:8888"),
        (("worker:0:x",), "'worker:0:x': write role:index:port"),
        (("worker:0:8888:1",), "write role:index:port"),
        (("worker:0", "--port", number), f"cannot listen on 127.0.0.1:{number}: Address already in use"),
        (("worker:0", "--address", "203.0.113.1"), "cannot listen on 203.0.113.1:0: Cannot assign requested address"),
        (("worker:0:8888", "--port", "8888"), "port 8888 of this machine is used by worker:0"),
    ):
        done = lab.tony("proxy", job, *arguments)
        assert done.returncode == 2, done.stderr
        assert why in done.stderr
    taken.close()
    lab.tony("kill", job, "--now")
    lab.wait(job)
    done = lab.tony("proxy", job, "worker:0", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["message"].startswith("cannot forward to an ended job: job ")


def memory(pid: int) -> int:
    """Bytes that a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
