"""The original's end-to-end scenarios, on a real cluster. The numbers are those of its own suite.

| Number | Here |
|---|---|
| E1 E2 E4 E5 E6 E9 E12 E15 E16 E21 | as the original has them: run side by side, `RUNS` says what each is |
| E3 | a part of E1: nobody is there to talk to once the job has ended |
| E7 | an executor that stands still (SIGSTOP) in place of one that skips heartbeats |
| E8 | a program that ends, and whose executor stands still for a while before it can tell |
| E10 E11 | the master is killed; a framework's adapter throws in it |
| E17 | refused at submit, before anything reaches the cluster |
| E18 | the node's word that a container ended comes late: its NodeManager stands still |
| E19 | from Python |
| E25 | refused with the arithmetic; and a job that does not get its containers in time |
| E26 | an application that stays ACCEPTED, for its queue has no room: seen, ended, or started when there is room |
| E32 | the master stands still for longer than YARN bears |
| E22 E23 E24 E34 | Horovod and class paths: nothing here has them |
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

import tony
from tests.mini_clusters import Clusters
from tests.yarn.conftest import one_user
from tests.yarn.lab import YarnLab, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

OK = "import time; time.sleep(0.2)"
FAIL = "import sys, time; time.sleep(0.2); sys.exit(1)"
ENV = "import os; assert os.environ['ENV_CHECK'] == 'ENV_CHECK'"
VENV = ENV + "; assert os.path.exists('venv/123.xml')"
FOREVER = "import os, time; open(os.environ['OUT'] + '/up', 'w'); time.sleep(3600)"
GATE = "import os, time\nwhile not os.path.exists(os.environ['OUT'] + '/gate'): time.sleep(0.05)"
TORCH = "import os; assert all(os.environ[n] for n in ('RANK', 'WORLD', 'INIT_METHOD'))"
TB_CHIEF_ONLY = "import os; assert ('TB_PORT' in os.environ) == (os.environ['JOB_NAME'] == 'chief')"
SECOND_FAILS = "import os, sys, time; time.sleep(0.2); sys.exit(os.environ['TASK_INDEX'] == '1')"
STAGE = """
import os, time
with open(f"{os.environ['OUT']}/e12-{os.environ['JOB_NAME']}", "w") as file:
    print(time.time(), file=file)
    time.sleep(0.3)
    print(time.time(), file=file)
"""

PS_AND_WORKER = '[roles.ps]\nkind = "untracked"\n[roles.worker]\n'
_AFTER = 'after = { ended = ["dbloader", "db"] }\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A job that is followed to its end, and how that must be."""

    program: str
    roles: str = ""
    head: str = ""
    code: int = 0
    states: dict[str, str] | None = None


RUNS = {
    "e1": Run(program=ENV, states={"main:0": "succeeded"}),
    "e2": Run(program=FAIL, code=1, states={"main:0": "failed"}),
    "e4": Run(program=VENV, roles="[roles.worker]\n", head='files = ["venv.zip::venv#archive"]'),
    "e5": Run(program=FAIL, roles=PS_AND_WORKER, code=1),
    "e6": Run(program=SECOND_FAILS, roles="[roles.worker]\ninstances = 2\n", code=1),
    "e6-chief-or-all": Run(
        program=SECOND_FAILS,
        roles="[roles.worker]\ninstances = 2\n",
        head='failure_policy = "chief-or-all"',
        states={"worker:0": "succeeded", "worker:1": "failed"},
    ),
    "e9": Run(program=TORCH, roles="[roles.worker]\ninstances = 2\n", head='framework = "pytorch"'),
    "e12": Run(program=STAGE, roles=f"[roles.worker]\n{_AFTER}[roles.ps]\n{_AFTER}[roles.db]\n[roles.dbloader]\n"),
    "e15": Run(
        program=TB_CHIEF_ONLY,
        roles='[roles.chief]\n[roles.ps]\nkind = "untracked"\n[roles.worker]\n',
        head='framework = "tensorflow"',
    ),
    "e16": Run(program=OK, roles="[roles.worker]\n", head='framework = "standalone"'),
    "e21": Run(
        program=OK,
        roles='[roles.helper]\nkind = "sidecar"\ncommand = "exit 1"\n[roles.worker]\ncommand = "sleep 1"\n',
        states={"helper:0": "failed", "worker:0": "succeeded"},
    ),
}


class Batch:
    """All of RUNS, four at a time, by one user."""

    def __init__(self, lab: YarnLab) -> None:
        self.lab = lab
        self._pool = ThreadPoolExecutor(4)
        self._futures: dict[str, Future[subprocess.CompletedProcess[str]]] = {}

    def start(self, names: list[str]) -> None:
        for name in names:
            self._futures[name] = self._pool.submit(self._submit, name, RUNS[name])

    def _submit(self, name: str, run: Run) -> subprocess.CompletedProcess[str]:
        text = f'command = "python3 x.py"\n{run.head}\n{run.roles}'
        job = self.lab.job(text, {f"{name}/x.py": run.program}, f"{name}/job.toml", ENV_CHECK="ENV_CHECK")
        if "venv.zip" in run.head:
            with zipfile.ZipFile(job.parent / "venv.zip", "w") as archive:
                archive.writestr("123.xml", "<xml/>")
        done: subprocess.CompletedProcess[str] = self.lab.submit(job, timeout=300)
        return done

    def result(self, name: str) -> subprocess.CompletedProcess[str]:
        return self._futures[name].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def batch(request: pytest.FixtureRequest, clusters: Clusters) -> Iterator[Batch]:
    """Started when the first test wants one of them; what runs beside is just another job to each."""
    ids = [item.name.partition("[")[2].rstrip("]") for item in request.session.items if item.path == Path(__file__)]
    wanted = [name for name in RUNS if name in ids]
    with one_user(lambda folder: YarnLab(folder, clusters.shared())) as lab:
        batch = Batch(lab)
        try:
            batch.start(wanted)
            yield batch
        finally:
            batch.close()


@pytest.mark.parametrize("name", RUNS)
def test_run(batch: Batch, name: str) -> None:
    """Exit code, state, and the states of the tasks are as the scenario has them; nobody is there to talk to after."""
    run, done = RUNS[name], batch.result(name)
    assert done.returncode == run.code, done.stdout + done.stderr
    found = re.search(r"application_\d+_\d+", done.stdout + done.stderr)
    assert found
    status = batch.lab.status(found[0])
    assert (status["am"], status["exit_code"]) == (None, run.code)
    assert status["state"] == ("failed" if run.code else "succeeded")
    if run.states:
        assert {task["task"]: task["state"] for task in status["tasks"]} == run.states
    if run.code:
        assert status["failure"]["exit_code"] == 1
    if name == "e12":
        times = {role: [float(each) for each in batch.lab.wrote(f"e12-{role}").split()] for role in _STAGES}
        assert max(times["db"][1], times["dbloader"][1]) < min(times["worker"][0], times["ps"][0])


_STAGES = ("db", "dbloader", "worker", "ps")


@pytest.mark.on_change("hadoop", "schedulers", "mini")
def test_e7_an_executor_that_stands_still(lab: YarnLab) -> None:
    """Its container with all in it is ended by its node, and the gang begins again: that is charged to nobody."""
    head = 'heartbeat_interval = "200ms"\nheartbeat_timeout = "2s"'
    job = lab.detach(lab.roles(FOREVER, PS_AND_WORKER, head))
    lab.wait_wrote("up")
    os.kill(lab.executor_of(job, "worker:0"), signal.SIGSTOP)
    until(lambda: (lab.status(job)["session"], lab.status(job)["state"]) == (2, "running"), "the next session runs")
    assert (lab.status(job)["restarts"]["charged"], lab.status(job)["restarts"]["free"]) == (0, 1)
    assert "no heartbeat from worker:0" in lab.tony("status", job).stdout
    lab.tony("kill", job)
    lab.wait_gone(job)


@pytest.mark.on_change("hadoop", "schedulers", "mini")
def test_e8_an_executor_that_tells_late(lab: YarnLab) -> None:
    """Its program has ended, and it stands still for a moment: that is waited for."""
    job = lab.detach(lab.roles(GATE, "[roles.worker]\ninstances = 2\n", 'heartbeat_timeout = "20s"'))
    program, executor = lab.pid_of(job, "worker:0"), lab.executor_of(job, "worker:0")
    lab.pid_of(job, "worker:1")
    os.kill(executor, signal.SIGSTOP)
    (lab.out / "gate").touch()
    until(lambda: _is_over(program), "the program ended")
    until(lambda: lab.tasks(job)["worker:1"]["state"] == "succeeded", "the other one is done")
    assert lab.status(job)["state"] == "running"
    os.kill(executor, signal.SIGCONT)
    assert lab.wait(job)["state"] == "succeeded"


def _is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_e10_a_master_that_dies_fails_the_job(lab: YarnLab) -> None:
    """The only application master is killed: the follower ends with a verdict and exit code 3, nothing is left."""
    follower = lab.follow("submit", lab.roles(FOREVER), "--scheduler", "yarn", "--set", "am_attempts=1")
    lab.wait_wrote("up")
    job = lab.only_job()
    os.kill(lab.master_of(job), signal.SIGKILL)
    out, err = follower.communicate(timeout=120)
    assert follower.returncode == 3, out + err
    assert lab.failure(job)["cause"] == "am-lost"
    assert lab.wait_application(job)["finalStatus"] == "FAILED"
    lab.wait_gone(job)


@pytest.mark.on_change("hadoop", "schedulers", "mini")
def test_e11_a_master_that_throws_fails_the_job(lab: YarnLab) -> None:
    """A bug inside the application master (here: a plug-in's) ends the job as exit code 70, and names it."""
    plug = lab.root / "plug"
    (plug / "bad-1.dist-info").mkdir(parents=True)
    (plug / "bad-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1\n")
    (plug / "bad-1.dist-info" / "entry_points.txt").write_text("[tony.frameworks]\nbad = bad_framework:Bad\n")
    (plug / "bad_framework.py").write_text(
        "from tony.frameworks.base import Framework\n"
        "class Bad(Framework):\n"
        "    name = 'bad'\n"
        "    def shared(self, spec, cluster): raise KeyError('boom')\n"
        "    def environment(self, shared, task): return [{}]\n"
    )
    path = os.pathsep.join(filter(None, [str(plug), os.environ.get("PYTHONPATH")]))
    done = lab.submit(lab.roles(OK, "", 'framework = "bad"'), env={"PYTHONPATH": path})
    assert done.returncode == 70, done.stdout + done.stderr
    assert "bad_framework" in done.stdout + done.stderr
    assert lab.wait_application(lab.only_job())["finalStatus"] == "FAILED"


def test_e17_standalone_with_two_tasks_is_refused(lab: YarnLab) -> None:
    """Before anything reaches the cluster."""
    before = lab.applications()
    done = lab.submit(lab.roles(OK, "[roles.worker]\n[roles.slave]\n", 'framework = "standalone"'))
    assert done.returncode == 2
    assert "standalone" in done.stderr
    assert (lab.jobs(), lab.applications()) == ([], before)


@pytest.mark.on_change("hadoop", "schedulers", "mini")
def test_e18_a_nodes_late_word(lab: YarnLab) -> None:
    """That a container has ended, its NodeManager tells seconds after its executor did: nothing is lost by it."""
    head = 'heartbeat_interval = "200ms"\nheartbeat_timeout = "1s"'
    job = lab.detach(lab.roles(GATE, head=head))
    lab.pid_of(job, "worker:0")
    node = lab.node_of(lab.tasks(job)["worker:0"]["host"])
    lab.cluster.kill(node, signal.SIGSTOP)
    try:
        (lab.out / "gate").touch()
        until(lambda: lab.tasks(job)["worker:0"]["state"] == "succeeded", "the executor has told its program's end")
    finally:
        lab.cluster.kill(node, signal.SIGCONT)
    assert lab.wait(job)["state"] == "succeeded"


def test_e19_callbacks(lab: YarnLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python: the id at once, two tasks, the worker succeeded and the ps stopped by us."""
    for name in ("HOME", "TONY_HOME", "PATH", "XDG_CONFIG_HOME", "HADOOP_CONF_DIR"):
        monkeypatch.setenv(name, lab.env[name])
    text = '[roles.ps]\nkind = "untracked"\ncommand = "sleep 30"\n[roles.worker]\n'
    job = tony.submit(str(lab.roles(ENV, text, ENV_CHECK="ENV_CHECK")), scheduler="yarn")
    assert lab.jobs() == [job.id]
    report = job.wait(timeout=120)
    assert report.exit_code == 0
    assert {t.task: t.state.value for t in report.tasks} == {"ps:0": "stopped", "worker:0": "succeeded"}
    assert "registered" in [e.event.kind for e in job.events()]


@pytest.mark.on_change("hadoop", "schedulers", "mini")
def test_e32_lost_connection_with_the_master(lab: YarnLab) -> None:
    """The master stands still: YARN misses it, and another one goes on; the program notices nothing."""
    job = lab.detach(lab.roles(GATE))
    program, master = lab.pid_of(job, "worker:0"), lab.master_of(job)
    os.kill(master, signal.SIGSTOP)
    until(lambda: lab.application(job)["state"] == "ACCEPTED" or lab.master_of(job) != master, "YARN misses it", 120)
    until(lambda: lab.status(job)["attempt"] == 2, "another one goes on")
    assert lab.pid_of(job, "worker:0") == program
    (lab.out / "gate").touch()
    status = lab.wait(job)
    assert (status["state"], status["session"]) == ("succeeded", 1)
    lab.wait_gone(job)
