"""The scenarios of LinkedIn TonY's own end-to-end suite, with its numbers, on every scheduler.

| Number | Here |
|---|---|
| E1 E2 E4 E5 E6 E9 E12 E15 E16 E21 | as LinkedIn TonY has them: run side by side, `RUNS` says what each is |
| E3 | a part of `test_run`: no AM is left once the job has ended |
| E7 | an executor that is suspended (SIGSTOP) |
| E8 | a program that ends, and whose executor is suspended before it reports that |
| E10 E11 | the AM is killed; a framework's adapter throws in it |
| E17 | refused at submit, before anything reaches the scheduler |
| E18 | on YARN the node reports late that a container ended; on local the executor reports late |
| E19 | from Python |
| E25 | refused with the arithmetic; and a job that does not get its containers in time |
| E26 | an AM that never starts |
| E32 | the AM is suspended for longer than YARN bears |
| E22 E23 E24 E34 | Horovod and class paths: not here, but in test_horovod_rendezvous.py and tests/executor/ |
"""

from __future__ import annotations

import os
import signal
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import tony
from tests.e2e.lab import Lab, one_user, until
from tests.scenarios.conftest import SCHEDULERS, only_on
from tests.support.child_modules import JobModules, module_words
from tests.yarn.lab import YarnLab
from tony.linux.process import is_alive

pytestmark = pytest.mark.e2e

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
        roles='[roles.helper]\nkind = "sidecar"\ncommand = "exit 1"\n[roles.worker]\ncommand = "sleep 5"\n',
        states={"helper:0": "failed", "worker:0": "succeeded"},
    ),
}


class Batch:
    """All of RUNS, four at a time, by one user."""

    def __init__(self, lab: Lab) -> None:
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
def batches(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Batch]]:
    """The batch of each scheduler, started when its first test wants it; to each job the others are just other jobs."""
    here = [item for item in request.session.items if isinstance(item, pytest.Function) and hasattr(item, "callspec")]
    selected = [item.callspec.params for item in here if item.path == Path(__file__)]
    with ExitStack() as stack:

        @cache
        def batch(scheduler: str) -> Batch:
            lab = stack.enter_context(one_user(lambda folder: SCHEDULERS[scheduler].make(folder, request)))
            made = Batch(lab)
            stack.callback(made.close)
            made.start([name for name in RUNS if {"scheduler": scheduler, "name": name} in selected])
            return made

        yield batch


@pytest.fixture
def batch(batches: Callable[[str], Batch], scheduler: str) -> Batch:
    return batches(scheduler)


@pytest.mark.parametrize("name", RUNS)
def test_run(batch: Batch, name: str) -> None:
    """Exit code, state, and the states of the tasks are as the scenario has them; no AM is left."""
    run, done = RUNS[name], batch.result(name)
    assert done.returncode == run.code, done.stdout + done.stderr
    (job,) = (each for each in batch.lab.jobs() if each in done.stdout + done.stderr)
    status = batch.lab.status(job)
    assert (status["am"], status["exit_code"]) == (None, run.code)
    assert status["state"] == ("failed" if run.code else "succeeded")
    assert not (Path(status["folder"]) / "am.json").exists()
    if run.states:
        assert {task["task"]: task["state"] for task in status["tasks"]} == run.states
    if run.code:
        assert status["failure"]["exit_code"] == 1
    if name == "e12":
        times = {role: [float(each) for each in batch.lab.wrote(f"e12-{role}").split()] for role in _STAGES}
        assert max(times["db"][1], times["dbloader"][1]) < min(times["worker"][0], times["ps"][0])


_STAGES = ("db", "dbloader", "worker", "ps")


def test_e7_a_suspended_executor(lab: Lab) -> None:
    """Its container is stopped by its node, and the gang starts again: that counts against no limit."""
    head = 'heartbeat_interval = "200ms"\nheartbeat_timeout = "8s"'
    job = lab.detach(lab.roles(FOREVER, PS_AND_WORKER, head))
    lab.wait_wrote("up")
    os.kill(lab.executor_of(job, "worker:0"), signal.SIGSTOP)
    until(lambda: (lab.status(job)["session"], lab.status(job)["state"]) == (2, "running"), "the next session runs")
    assert (lab.status(job)["restarts"]["charged"], lab.status(job)["restarts"]["free"]) == (0, 1)
    assert "no heartbeat from worker:0" in lab.tony("status", job).stdout
    lab.tony("kill", job)
    lab.wait_removed(job)


def test_e8_an_executor_that_reports_late(lab: Lab) -> None:
    """Its program has exited, and it is suspended for a moment: the report is waited for."""
    job = lab.detach(lab.roles(GATE, "[roles.worker]\ninstances = 2\n", 'heartbeat_timeout = "120s"'))
    program, executor = lab.pid_of(job, "worker:0"), lab.executor_of(job, "worker:0")
    lab.pid_of(job, "worker:1")
    os.kill(executor, signal.SIGSTOP)
    (lab.out / "gate").touch()
    until(lambda: not is_alive(program), "the program ended")
    until(lambda: lab.tasks(job)["worker:1"]["state"] == "succeeded", "the other one is done")
    assert lab.status(job)["state"] == "running"
    os.kill(executor, signal.SIGCONT)
    assert lab.wait(job)["state"] == "succeeded"


def test_e10_a_master_that_dies_fails_the_job(lab: Lab) -> None:
    """The only application master is killed: the follower ends with a verdict and exit code 3, nothing is left."""
    follower = lab.follow("submit", lab.roles(FOREVER), *lab.options, "--set", "am_attempts=1")
    lab.wait_wrote("up")
    job = lab.only_job()
    os.kill(lab.master_of(job), signal.SIGKILL)
    out, err = follower.communicate(timeout=120)
    assert follower.returncode == 3, out + err
    assert lab.failure(job)["cause"] == "am-lost"
    assert lab.wait_ended(job) == "failed"
    lab.wait_removed(job)


def plug_in(lab: Lab, name: str, class_name: str, text: str) -> dict[str, str]:
    """Writes a package with a framework's adapter; returns the environment that installs it."""
    plug = lab.root / "plug"
    info = plug / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[tony.frameworks]\n{name} = {name}_framework:{class_name}\n")
    (plug / f"{name}_framework.py").write_text(text)
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(plug), os.environ.get("PYTHONPATH")]))}


def test_e11_a_master_that_throws_fails_the_job(lab: Lab) -> None:
    """A bug inside the application master (here: a plug-in's) ends the job as exit code 70, and names it."""
    text = (
        "from tony.frameworks.framework_interface import Framework\n"
        "class Bad(Framework):\n"
        "    name = 'bad'\n"
        "    def build_shared(self, spec, cluster): raise KeyError('boom')\n"
        "    def environment(self, shared, task): return [{}]\n"
    )
    done = lab.submit(lab.roles(OK, "", 'framework = "bad"'), env=plug_in(lab, "bad", "Bad", text))
    assert done.returncode == 70, done.stdout + done.stderr
    assert "bad_framework" in done.stdout + done.stderr
    assert lab.wait_ended(lab.only_job()) == "failed"


def test_e17_standalone_with_two_tasks_is_refused(lab: Lab) -> None:
    """Before anything reaches the scheduler."""
    before = lab.applications()
    done = lab.submit(lab.roles(OK, "[roles.worker]\n[roles.slave]\n", 'framework = "standalone"'))
    assert done.returncode == 2
    assert "standalone" in done.stderr
    assert (lab.jobs(), lab.applications()) == ([], before)


@only_on("local", why="replaces the executor's program; on YARN a node reports late: the test below")
def test_e18_a_late_completion_should_pass(lab: Lab) -> None:
    """The report that a program ended comes after the time in which heartbeats must come: nothing is lost by it."""
    head = 'heartbeat_interval = "100ms"\nheartbeat_timeout = "3s"'
    late = JobModules(executor=module_words("faulty_executor", "delay-exits=4"))
    done = lab.submit(lab.roles(OK, head=head), modules=late)
    assert done.returncode == 0, done.stdout + done.stderr


@only_on("yarn", why="local has no node that reports the end of a container: the executor is a child of ours")
def test_e18_a_late_report_of_a_node(lab: YarnLab) -> None:
    """Its NodeManager reports the end of a container seconds after its executor did: nothing is lost by it."""
    head = 'heartbeat_interval = "200ms"\nheartbeat_timeout = "4s"'
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


def test_e19_callbacks(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python: the id at once, two tasks, the worker succeeded and the ps stopped by us."""
    for name, value in lab.env.items():
        monkeypatch.setenv(name, value)
    text = '[roles.ps]\nkind = "untracked"\ncommand = "sleep 30"\n[roles.worker]\n'
    job = tony.submit(str(lab.roles(ENV, text, ENV_CHECK="ENV_CHECK")), scheduler=lab.scheduler)
    assert lab.jobs() == [job.id]
    report = job.wait(timeout=120)
    assert report.exit_code == 0
    assert {t.task: t.state.value for t in report.tasks} == {"ps:0": "stopped", "worker:0": "succeeded"}
    assert "registered" in [e.event.kind for e in job.events()]


@only_on("local", why="the size of the machine; YARN's limits: tests/yarn/test_cluster_capacity.py::test_refused")
def test_e25_too_large_is_refused_with_the_arithmetic(lab: Lab) -> None:
    """Ten thousand workers of 2g can never fit: refused at submit, exit 2, with numbers."""
    done = lab.submit(lab.roles(OK, '[roles.worker]\ninstances = 10000\nmemory = "2g"\n'))
    assert done.returncode == 2
    assert "10000" in done.stderr
    assert "2g" in done.stderr


@only_on(
    "local",
    why="any machine; on YARN three full nodes: tests/yarn/test_cluster_capacity.py::test_allocation_time_out",
)
def test_e25_allocation_time_out(lab: Lab) -> None:
    """A job that does not get its containers in time fails as infrastructure, and says behind which job it waited."""
    room = {"TONY_SET_SCHEDULER__LOCAL__MEMORY": "1g"}
    first = lab.detach(lab.roles(FOREVER, '[roles.worker]\nmemory = "1g"\n'), env=room)
    lab.wait(first, "running")
    second = lab.submit(lab.roles(OK, '[roles.worker]\nmemory = "1g"\n', 'allocation_timeout = "1s"'), env=room)
    assert second.returncode == 3, second.stdout + second.stderr
    (job,) = {*lab.jobs()} - {first}
    failure = lab.failure(job)
    assert failure["cause"] == "allocation-timeout"
    assert first in failure["reason"]
    assert lab.tony("kill", first).returncode == 0
    lab.wait(first, "killed")


@only_on(
    "local", why="on YARN the AM waits for room in its queue: tests/yarn/test_cluster_capacity.py::test_queue_time_out"
)
def test_e26_a_master_that_never_starts(lab: Lab) -> None:
    """An application master that ends before it lives leaves a message, exit 3, and no job behind."""
    text = (
        "import sys\n"
        "if 'tony.am.main' in sys.modules: sys.exit('the plug-in ends the application master')\n"
        "from tony.frameworks.no_framework import NoFramework\n"
        "class V(NoFramework): name = 'vanishing'\n"
    )
    job = lab.roles(OK, "", 'framework = "vanishing"')
    done = lab.submit(job, env=plug_in(lab, "vanishing", "V", text))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "the plug-in ends the application master" in done.stderr


@only_on("yarn", why="local has no time-out for an AM that is suspended: tests/e2e/test_succession.py kills such a job")
def test_e32_lost_connection_with_the_master(lab: YarnLab) -> None:
    """The master is suspended: YARN misses its heartbeats, and another one continues; the program notices nothing."""
    job = lab.detach(lab.roles(GATE))
    program, master = lab.pid_of(job, "worker:0"), lab.master_of(job)
    os.kill(master, signal.SIGSTOP)
    until(lambda: lab.application(job)["state"] == "ACCEPTED" or lab.master_of(job) != master, "YARN misses it", 120)
    until(lambda: lab.status(job)["attempt"] == 2, "another one continues")
    assert lab.pid_of(job, "worker:0") == program
    (lab.out / "gate").touch()
    status = lab.wait(job)
    assert (status["state"], status["session"]) == ("succeeded", 1)
    lab.wait_removed(job)
