"""Jobs on a real cluster, from `tony submit` to the end: what works, and what programs see."""

from __future__ import annotations

import asyncio
import html
import http.client
import json
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

import pytest

from tests.e2e.lab import FAMILY, read_files
from tests.yarn.lab import CEILING, YarnLab, user
from tony.hadoop import ids
from tony.hadoop.configuration import Configuration
from tony.schedulers.yarn.cluster_clients import ClusterClients

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_one_task(lab: YarnLab) -> None:
    """A job without roles is one task in one container; YARN, status and exit code agree. HDFS can be found in it."""
    command = "echo $JOB_NAME:$TASK_INDEX in $PWD > $OUT/said; env > $OUT/env; test -r $HADOOP_TOKEN_FILE_LOCATION"
    done = lab.submit(lab.job(f'command = "{command}"\n'))
    assert done.returncode == 0, done.stdout + done.stderr
    job = lab.only_job()
    status = lab.status(job)
    assert (status["state"], status["exit_code"], status["am"]) == ("succeeded", 0, None)
    assert [task["task"] for task in status["tasks"]] == ["main:0"]
    assert lab.wrote("said").startswith("main:0 in ")
    assert f"/{job}/container_" in lab.wrote("said")
    own = dict(line.partition("=")[::2] for line in lab.wrote("env").splitlines())
    found = (own["HADOOP_CONF_DIR"], own["HADOOP_USER_NAME"], own["CONTAINER_ID"] in lab.wrote("said"))
    assert found == (str(lab.cluster.conf), user(), True)
    seen = lab.wait_application(job)
    assert (seen["state"], seen["finalStatus"], seen["applicationType"]) == ("FINISHED", "SUCCEEDED", "TONY")
    assert seen["diagnostics"].strip() == "succeeded"


def test_killed_from_another_machine(lab: YarnLab) -> None:
    """By the id alone, with a copy of the configuration: the job ends, and both homes say the same afterwards.

    YARN's web proxy leads to the job's page while it runs, and to YARN's own page of it afterwards.
    """
    job = lab.detach(lab.roles(FAMILY, head='name = "a <b> page"'))
    lab.wait_wrote("0")
    there = lab.elsewhere("there")
    assert there.status(job)["state"] == "running"
    _prove_page(lab, job)
    done = there.tony("kill", job)
    assert done.returncode == 0, done.stdout + done.stderr
    for each in (there, lab):
        status = each.wait(job)
        assert (status["state"], status["exit_code"]) == ("killed", 4)
    assert lab.wait_application(job)["finalStatus"] == "KILLED"
    lab.wait_removed(job)
    assert there.jobs() == lab.jobs() == [job]
    after = _get(lab.page("rm"), f"/proxy/{job}/")
    leads_to = urllib.parse.urlsplit(after.headers["Location"])
    assert (after.status, leads_to.path) == (302, f"/cluster/app/{job}")
    assert job in _get(lab.page("rm"), leads_to.path).body


def _prove_page(lab: YarnLab, job: str) -> None:
    """Through the proxy: all of it, whatever of a request the proxy drops. Others are sent to the proxy."""
    proxy = f"/proxy/{job}/"
    page = _get(lab.page("rm"), proxy, {"Range": "bytes=0-9", "Cookie": "own=1", "X-Own": "1"})
    assert (page.status, page.headers["Content-Type"].lower()) == (200, "text/html;charset=utf-8")
    for part in ("a &lt;b&gt; page", job, "worker:0"):
        assert part in page.body
    assert page.body.rstrip().endswith("</html>")
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; ")
    assert "Set-Cookie" not in page.headers
    # Wherever the proxy has it: nothing leads to an address that is not relative, and each that is loads.
    found = set(re.findall(r'(?:href|src|action|data-points)="([^"#][^"]*)"', page.body))
    links = {html.unescape(each) for each in found if "/" in each or "." in each}
    assert len(links) > 5
    assert not [each for each in links if urllib.parse.urlsplit(each).netloc or each.startswith("/")]
    for link in links:
        where = urllib.parse.urljoin(proxy, link)
        assert where.startswith(proxy), link
        assert _get(lab.page("rm"), where).status == 200, link
    assert _get(lab.page("rm"), f"{proxy}etc/passwd").status == 404
    report = json.loads(_get(lab.page("rm"), f"{proxy}api/v1/jobs/{job}").body)
    assert (report["job"], report["state"]) == (job, "running")
    direct = asyncio.run(_own_page(lab, job))
    sent_on = _get(direct, "/", source="127.0.9.9")
    assert (sent_on.status, sent_on.headers["Location"]) == (302, f"http://{lab.page('rm')}{proxy}")
    assert "worker" not in sent_on.body
    arrived = _get(lab.page("rm"), urllib.parse.urlsplit(sent_on.headers["Location"]).path)
    assert "worker:0" in arrived.body


async def _own_page(lab: YarnLab, job: str) -> str:
    """Where the application master itself shows it."""
    cluster = ClusterClients.from_configuration(Configuration.load(lab.cluster.conf, {}), {})
    async with cluster.applications() as client:
        report = await client.report(ids.parse_application_id(job))
    return urllib.parse.urlsplit(report.original_tracking_url or "").netloc


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    headers: Message
    body: str


def _get(address: str, path: str, headers: Mapping[str, str] | None = None, source: str = "") -> _Answer:
    """What a browser at an address of this machine is answered."""
    connection = http.client.HTTPConnection(address, timeout=CEILING, source_address=(source, 0) if source else None)
    try:
        connection.request("GET", path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return _Answer(status=answer.status, headers=answer.headers, body=answer.read().decode())
    finally:
        connection.close()


def test_no_secrets_where_others_may_look(lab: YarnLab) -> None:
    """Variables of a container, its start script, its tokens and its logs hold nothing of ours, nor the AM's token."""
    secret = "hunter2-secret"
    program = f"import os; print(os.environ['API_TOKEN'], flush=True)\n{FAMILY}"
    job = lab.detach(lab.roles(program), "--set", f"env.API_TOKEN={secret}")
    lab.wait_wrote("0")
    credentials = json.loads((lab.home / "jobs" / job / "secret" / "credentials.json").read_text())
    forbidden = [secret, *_strings(credentials)]
    assert len(forbidden) > 4
    master, task = sorted(lab.folders(job))
    for folder in (*lab.folders(job).values(), *lab.logs(job).values()):
        for path, content in read_files(folder):
            assert not [each for each in forbidden if each.encode() in content] or _is_own(path), path
    assert b"YARN_AM_RM_TOKEN" in (lab.folders(job)[master] / "container_tokens").read_bytes()
    assert b"YARN_AM_RM_TOKEN" not in (lab.folders(job)[task] / "container_tokens").read_bytes()
    assert (lab.folders(job)[task] / "launch_container.sh").exists()
    first = lab.pid_of(job, "worker:0")
    for pid in lab.processes(job):
        hidden = forbidden[1:] if _is_descendant(pid, first) else forbidden
        seen = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
        assert not [each for each in hidden if each.encode() in seen], pid
    assert lab.tony("kill", job).returncode == 0
    lab.wait(job, "killed")
    assert lab.elsewhere("there").tony("logs", job).stdout == f"{'*' * len(secret)}\n"


def _is_own(path: Path) -> bool:
    """Whether a file belongs to the application master, in a folder that only its user may enter."""
    return path.parent.name == "secret" and path.parent.stat().st_mode & 0o077 == 0


def _strings(value: object) -> list[str]:
    """Every secret in credentials: certificates are no secrets, but they do no harm here."""
    if isinstance(value, dict):
        return [text for each in value.values() for text in _strings(each)]
    return [value] if isinstance(value, str) and len(value) > 20 else []


def _is_descendant(pid: int, ancestor: int) -> bool:
    """Whether a process was started by another: by its environment, for daemons have left their parents."""
    if pid == ancestor:
        return True
    mark = next(each for each in Path(f"/proc/{ancestor}/environ").read_bytes().split(b"\0") if b"TONY_TASK=" in each)
    return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def test_an_ended_job_is_known_on_other_machines(lab: YarnLab) -> None:
    """By the id alone: the same outcome, the same events, which lead to it when replayed."""
    done = lab.submit(lab.roles("raise SystemExit(7)", "[roles.worker]\ninstances = 2\n", "max_restarts = 1"))
    assert done.returncode == 1, done.stdout + done.stderr
    job, there = lab.only_job(), lab.elsewhere("there")
    here_told, there_told = (each.tony("events", job, "--json") for each in (lab, there))
    assert (here_told.returncode, here_told.stdout) == (0, there_told.stdout)
    assert there_told.stdout.count('"session-opened"') == 2
    ours, theirs = lab.status(job), there.status(job)
    assert {**ours, "folder": ""} == {**theirs, "folder": ""}
    assert theirs["failure"]["exit_code"] == 7
    for each in (lab, there):
        replayed = each.tony("replay", job)
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
        assert "exit code 7" in each.tony("status", job).stdout
        assert each.tony("kill", job).returncode == 0  # of what has ended, nothing
    assert there.status(job)["state"] == "failed"


def test_attach_rerun_and_doctor(lab: YarnLab) -> None:
    """A detached job is followed to its end; submitted again, it has the code of the first run."""
    gate = lab.out / "gate"
    program = f"import os, time\nprint('first code', flush=True)\nwhile not os.path.exists('{gate}'): time.sleep(0.1)\n"
    job = lab.detach(lab.job('command = "python3 x.py"\n', {"x.py": program}))
    follower = lab.follow("attach", job)
    assert follower.stdout is not None
    assert any("first code" in line for line in follower.stdout)
    gate.touch()
    _, err = follower.communicate(timeout=CEILING)
    assert follower.returncode == 0, err
    lab.file("x.py", "print('second code')\n")
    again = lab.tony("rerun", job)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "first code" in again.stdout
    checked = lab.tony("doctor", "--json")
    assert checked.returncode == 0, checked.stdout
    states = {check["name"]: check["state"] for check in json.loads(checked.stdout)["checks"]}
    assert {states[name] for name in ("ResourceManager", "HDFS", "clock")} == {"ok"}
