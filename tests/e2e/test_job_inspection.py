"""A job as it is seen from a terminal, with real processes, while it runs and afterwards; a webhook that is told."""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
import os
import pty
import select
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.lab import TONY, Lab, until
from tests.support.http_servers import webhook

JOB = """
command = "exec python3 train.py"
max_restarts = 1
backoff = "0s"
metrics_interval = "250ms"
[notify]
webhook = "env:HOOK"
secret = "file:{key}"
on = ["started", "restarted", "succeeded"]
[roles.worker]
instances = 2
memory = "128m"
"""
PROGRAM = """
import os, pathlib, sys, time
import tony
gate = pathlib.Path(os.environ["GATE"])
tony.progress(10, total=100, loss=2.5)
with tony.checkpoint(10):
    time.sleep(0.3)
while not gate.exists():
    time.sleep(0.05)
    tony.progress(20, total=100, loss=1.5)
if os.environ["SESSION_ID"] == "1" and os.environ["TASK_INDEX"] == "1":
    sys.exit(7)
"""


def test_a_job_from_a_terminal(lab: Lab) -> None:
    """top, timeline and metrics while it runs and when it has ended, compare, open, and what the webhook was told."""
    with webhook(503) as (url, notices):  # the first notice is refused for now
        gate, key = lab.root / "gate", lab.file("key", "k3y\n")
        lab.env["GATE"] = str(gate)
        lab.env["HOOK"] = f"{url}/T0/XYZZY"
        file = lab.job_file(JOB.format(key=key), {"train.py": PROGRAM})
        job = lab.detach(file)
        lab.wait(job, "running")

        def running() -> list[dict[str, Any]]:
            tasks: list[dict[str, Any]] = json.loads(lab.tony("top", job, "--json").stdout)["tasks"]
            return tasks if all(task["step"] == 20 and task["rss"] for task in tasks) else []

        for task in until(running, "both tasks tell of their step"):
            assert (task["total"], task["memory"]) == (100, 128 * 2**20)
        screen = on_a_terminal(lab, job)
        assert "20/100" in screen
        assert "sorted by cpu" in screen
        assert "running" in lab.tony("timeline", job).stdout
        gate.touch()
        assert lab.wait(job)["state"] == "succeeded"

        picture = lab.tony("timeline", job, "--ascii").stdout
        assert "|1" in picture
        assert "R" in picture
        assert "restart" in picture
        assert "checkpoints" in picture
        lines = list(
            csv.DictReader(io.StringIO(lab.tony("metrics", job, "--csv", "--series", "step,user.loss").stdout))
        )
        assert {(line["task"], line["series"]) for line in lines} == {
            (f"worker:{n}", name) for n in range(2) for name in ("step", "user.loss")
        }
        assert "worker:0  rss" in lab.tony("metrics", job).stdout
        said = json.loads(lab.tony("compare", job, job, "--json").stdout)
        assert (said["a"]["restarts"], said["settings"], said["a"]["state"]) == (1, [], "succeeded")

        got = until(lambda: len(notices) >= 4 and notices, "three notices, one of them twice")
        assert [json.loads(body)["event"] for _, body in got] == ["started", "started", "restarted", "succeeded"]
        assert json.loads(got[-1][1])["job"]["restarts"]["charged"] == 1
        for headers, body in got:
            signed = headers["X-Tony-Timestamp"].encode() + b"." + body
            assert headers["X-Tony-Signature"] == f"sha256={hmac.new(b'k3y', signed, hashlib.sha256).hexdigest()}"
        folder = lab.home / "jobs" / job
        until(lambda: "was notified that the job succeeded" in (folder / "am.log").read_text(), "the log says so")
        for path in folder.rglob("*"):
            assert not path.is_file() or b"XYZZY" not in path.read_bytes(), path
        shows_its_page(lab, job)


def shows_its_page(lab: Lab, job: str) -> None:
    """`open` finds the portal that runs, and none that has ended."""
    assert lab.tony("open", job, "--print").returncode == 2
    portal = lab.follow("portal")
    assert portal.stdout
    address = next(word for word in portal.stdout.readline().split() if word.startswith("http"))
    assert lab.tony("open", job).stdout.splitlines()[0] == f"{address}job/{job}"
    portal.terminate()
    portal.wait(60)
    assert lab.tony("open", job, "--print").returncode == 2


def on_a_terminal(lab: Lab, job: str) -> str:
    """What `tony top` shows to a person who sorts by cpu and quits."""
    main, side = pty.openpty()
    env = {**lab.env, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", TONY, "top", job],
        env=env,
        stdin=side,
        stdout=side,
        stderr=side,
        cwd=Path(lab.root),
    )
    os.close(side)
    seen = ""

    def read(text: str) -> bool:
        nonlocal seen
        if select.select([main], [], [], 0.05)[0]:
            try:
                seen += os.read(main, 65536).decode(errors="replace")
            except OSError:
                return True
        return text in seen

    until(lambda: read("20/100"), "the table is drawn")
    os.write(main, b"c")
    until(lambda: read("sorted by cpu"), "the key is heeded")
    os.write(main, b"q")
    until(lambda: read("\0") or process.poll() is not None, "it has quit")
    assert process.wait(60) == 0
    os.close(main)
    return seen
