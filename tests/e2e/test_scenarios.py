"""The original's end-to-end scenarios, on the local scheduler. The numbers are those of its own suite."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

import tony
from tests.e2e.lab import Lab, until

pytestmark = pytest.mark.e2e

OK = "import time; time.sleep(0.2)"
FAIL = "import sys, time; time.sleep(0.2); sys.exit(1)"
ENV = "import os; assert os.environ['ENV_CHECK'] == 'ENV_CHECK'"
VENV = "import os; assert os.environ['ENV_CHECK'] == 'ENV_CHECK'; assert os.path.exists('venv/123.xml')"
FOREVER = "import time; time.sleep(3600)"
TORCH = "import os; assert all(os.environ[n] for n in ('RANK', 'WORLD', 'INIT_METHOD'))"
TB_CHIEF_ONLY = """
import os
assert ('TB_PORT' in os.environ) == (os.environ['JOB_NAME'] == 'chief'), os.environ.get('TB_PORT')
"""


def single(lab: Lab, program: str, more: str = "") -> Path:
    """A job without roles."""
    return lab.job_file(f'command = "python x.py"\n{more}', {"x.py": program})


def roles(lab: Lab, program: str, text: str, head: str = "") -> Path:
    """A job with roles that all run one program."""
    return lab.job_file(f'command = "python x.py"\nstop_grace = "1s"\n{head}\n{text}', {"x.py": program})


PS_AND_WORKER = '[roles.ps]\nkind = "untracked"\n[roles.worker]\n'


def test_e1_single_node_training_should_pass(lab: Lab) -> None:
    """A job without roles is one task that runs the command, with its variables."""
    done = lab.submit(single(lab, ENV, 'env = { ENV_CHECK = "ENV_CHECK" }'))
    assert done.returncode == 0, done.stderr
    assert [t["task"] for t in lab.status(lab.only_job())["tasks"]] == ["main:0"]


def test_e2_single_node_training_should_fail(lab: Lab) -> None:
    """A failing program fails the job with exit code 1."""
    assert lab.submit(single(lab, FAIL)).returncode == 1


def test_e3_no_master_is_left_after_the_end(lab: Lab) -> None:
    """Once the job has ended there is no application master to talk to, and status says so."""
    assert lab.submit(single(lab, OK)).returncode == 0
    status = lab.status(lab.only_job())
    assert (status["am"], status["state"], status["exit_code"]) == (None, "succeeded", 0)
    assert not (Path(status["folder"]) / "am.json").exists()


def _venv_zip(lab: Lab) -> None:
    with zipfile.ZipFile(lab.file("venv.zip", ""), "w") as archive:
        archive.writestr("123.xml", "<xml/>")


def test_e4_worker_training_with_archive_should_pass(lab: Lab) -> None:
    """An archive is unpacked under the name that was asked for."""
    _venv_zip(lab)
    head = 'files = ["venv.zip::venv#archive"]\nenv = { ENV_CHECK = "ENV_CHECK" }'
    done = lab.submit(roles(lab, VENV, "[roles.worker]\n", head))
    assert done.returncode == 0, done.stdout + done.stderr


def test_e5_ps_and_worker_that_fail_should_fail(lab: Lab) -> None:
    """Every failing task fails the job."""
    assert lab.submit(roles(lab, FAIL, PS_AND_WORKER)).returncode == 1


def test_e6_non_chief_worker_fails(lab: Lab) -> None:
    """By default any tracked task's failure fails the job; under the original's rule another worker's does not."""
    program = "import os, sys, time; time.sleep(0.2); sys.exit(os.environ['TASK_INDEX'] == '1')"
    text = "[roles.worker]\ninstances = 2\n"
    assert lab.submit(roles(lab, program, text)).returncode == 1
    assert lab.submit(roles(lab, program, text, 'failure_policy = "chief-or-all"')).returncode == 0


def test_e7_missed_heartbeats_should_fail(lab: Lab) -> None:
    """An executor that pings too seldom is given up as infrastructure: not charged, ten times in a row."""
    head = 'heartbeat_interval = "100ms"\nheartbeat_timeout = "500ms"\nbackoff = "0s"\n'
    job = roles(lab, FOREVER, PS_AND_WORKER, head)
    done = lab.submit(job, "--set", "scheduler.local.executor=tony.testing.faulty_executor skip-heartbeats=1000")
    assert done.returncode == 3, done.stdout + done.stderr
    status = lab.status(lab.only_job())
    assert (status["failure"]["cause"], status["session"]) == ("silent", 11)
    assert "10 restarts in a row were not caused by the job" in done.stdout + done.stderr


def test_e8_skewed_worker_should_pass(lab: Lab) -> None:
    """A worker whose executor hangs after its program ended, still pinging, is waited for."""
    head = 'heartbeat_interval = "100ms"\nheartbeat_timeout = "2s"\nenv = { ENV_CHECK = "ENV_CHECK" }'
    job = roles(lab, ENV, '[roles.ps]\nkind = "untracked"\n[roles.worker]\ninstances = 2\n', head)
    done = lab.submit(job, "--set", "scheduler.local.executor=tony.testing.faulty_executor skew=5")
    assert done.returncode == 0, done.stdout + done.stderr


def test_e9_pytorch_variables(lab: Lab) -> None:
    """The original's variables are there for PyTorch programs."""
    done = lab.submit(roles(lab, TORCH, "[roles.worker]\ninstances = 2\n", 'framework = "pytorch"'))
    assert done.returncode == 0, done.stdout + done.stderr


def test_e10_a_master_that_dies_fails_the_job(lab: Lab) -> None:
    """The last application master is killed: the follower ends with a verdict and exit code 3, nothing is left."""
    follower = lab.follow("submit", roles(lab, FOREVER, "[roles.worker]\n", "am_attempts = 1"))
    job = until(lab.jobs, "a job is there")[0]
    status = lab.wait(job, "running")
    os.kill(status["am"]["pid"], 9)
    out, err = follower.communicate(timeout=60)
    assert follower.returncode == 3, out + err
    assert lab.status(job)["failure"]["cause"] == "am-lost"
    lab.wait_gone(job)


def test_e11_a_master_that_throws_fails_the_job(lab: Lab) -> None:
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
    done = lab.submit(single(lab, OK, 'framework = "bad"'), env={"PYTHONPATH": str(plug)})
    assert done.returncode == 70, done.stdout + done.stderr
    assert "bad_framework" in done.stdout + done.stderr


def test_e12_stages_in_order(lab: Lab) -> None:
    """ps and worker start only after both preparing roles have ended."""
    program = "import time; print('BEGIN', time.time()); time.sleep(0.3); print('END', time.time())"
    after = 'after = { ended = ["dbloader", "db"] }\n'
    text = f"[roles.worker]\n{after}[roles.ps]\n{after}[roles.db]\n[roles.dbloader]\n"
    assert lab.submit(roles(lab, program, text)).returncode == 0
    logs = lab.home / "jobs" / lab.only_job() / "logs"

    def times(role: str) -> list[float]:
        words = (logs / f"{role}-0.s1.t1.out").read_text().split()
        return [float(words[1]), float(words[3])]

    last_end = max(times("db")[1], times("dbloader")[1])
    assert min(times("worker")[0], times("ps")[0]) > last_end


def test_e15_tensorboard_port_only_on_the_chief(lab: Lab) -> None:
    """TB_PORT is set for the chief and nobody else."""
    text = '[roles.chief]\n[roles.ps]\nkind = "untracked"\n[roles.worker]\n'
    done = lab.submit(roles(lab, TB_CHIEF_ONLY, text, 'framework = "tensorflow"'))
    assert done.returncode == 0, done.stdout + done.stderr


def test_e16_standalone(lab: Lab) -> None:
    """Exactly one task runs under `standalone`."""
    done = lab.submit(roles(lab, OK, "[roles.worker]\n", 'framework = "standalone"'))
    assert done.returncode == 0, done.stdout + done.stderr


def test_e17_standalone_with_two_tasks_is_refused(lab: Lab) -> None:
    """More than one task is refused before anything starts."""
    done = lab.submit(roles(lab, OK, "[roles.worker]\n[roles.slave]\n", 'framework = "standalone"'))
    assert done.returncode == 2
    assert "standalone" in done.stderr
    assert lab.jobs() == []


def test_e18_a_late_completion_should_pass(lab: Lab) -> None:
    """The word that a program ended comes a second late, many heartbeats after: nothing is lost by it."""
    head = 'heartbeat_interval = "100ms"\nheartbeat_timeout = "500ms"'
    job = roles(lab, OK, "[roles.worker]\n", head)
    done = lab.submit(job, "--set", "scheduler.local.executor=tony.testing.faulty_executor skew=1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_e19_callbacks(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python: the id at once, two tasks, the worker succeeded and the ps stopped by us."""
    for name in ("HOME", "TONY_HOME", "PATH", "XDG_CONFIG_HOME", "TONY_SET_SCHEDULER__LOCAL__LEDGER"):
        monkeypatch.setenv(name, lab.env[name])
    job_file = lab.job_file(
        """
        env = { ENV_CHECK = "ENV_CHECK" }
        stop_grace = "1s"
        [roles.ps]
        kind = "untracked"
        command = "sleep 30"
        [roles.worker]
        command = "python x.py"
        """,
        {"x.py": ENV},
    )
    job = tony.submit(str(job_file))
    assert job.id in lab.jobs()
    report = job.wait(timeout=120)
    assert report.exit_code == 0
    assert {t.task: t.state.value for t in report.tasks} == {"ps:0": "stopped", "worker:0": "succeeded"}
    assert "registered" in [e.event.kind for e in job.events()]


def test_e21_a_sidecar_may_crash(lab: Lab) -> None:
    """A failing sidecar is seen, and does not matter."""
    text = '[roles.helper]\nkind = "sidecar"\ncommand = "exit 1"\n[roles.worker]\ncommand = "sleep 1"\n'
    done = lab.submit(lab.job_file(text))
    assert done.returncode == 0, done.stdout + done.stderr
    assert {t: v["state"] for t, v in lab.tasks(lab.only_job()).items()} == {
        "helper:0": "failed",
        "worker:0": "succeeded",
    }


def test_e25_too_large_is_refused_with_the_arithmetic(lab: Lab) -> None:
    """Ten thousand workers of 2g can never fit: refused at submit, exit 2, with numbers."""
    done = lab.submit(roles(lab, OK, '[roles.worker]\ninstances = 10000\nmemory = "2g"\n'))
    assert done.returncode == 2
    assert "10000" in done.stderr
    assert "2g" in done.stderr


def test_e25_allocation_time_out(lab: Lab) -> None:
    """A job that does not get its containers in time fails as infrastructure, and says behind whom it waited."""
    room = {"TONY_SET_SCHEDULER__LOCAL__MEMORY": "1g"}
    first = lab.detach(roles(lab, FOREVER, '[roles.worker]\nmemory = "1g"\n'), env=room)
    lab.wait(first, "running")
    second = lab.submit(roles(lab, OK, '[roles.worker]\nmemory = "1g"\n', 'allocation_timeout = "1s"'), env=room)
    assert second.returncode == 3, second.stdout + second.stderr
    failure = lab.status(lab.jobs()[-1])["failure"]
    assert failure["cause"] == "allocation-timeout"
    assert first in failure["reason"]
    assert lab.tony("kill", first).returncode == 0
    lab.wait(first, "killed")


def test_e26_a_master_that_never_starts(lab: Lab) -> None:
    """An application master that ends before it lives leaves a message, exit 3, and no job behind."""
    job = single(lab, OK, 'framework = "vanishing"')
    plug = lab.root / "plug"
    (plug / "v-1.dist-info").mkdir(parents=True)
    (plug / "v-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: v\nVersion: 1\n")
    (plug / "v-1.dist-info" / "entry_points.txt").write_text("[tony.frameworks]\nvanishing = vanishing:V\n")
    (plug / "vanishing.py").write_text(
        "import sys\n"
        "if 'tony.am.main' in sys.modules: sys.exit('the plug-in ends the application master')\n"
        "from tony.frameworks.no_framework import NoFramework\n"
        "class V(NoFramework): name = 'vanishing'\n"
    )
    done = lab.submit(job, env={"PYTHONPATH": str(plug)})
    assert done.returncode == 3, done.stdout + done.stderr
    assert "the plug-in ends the application master" in done.stderr


def test_json_has_what_is_promised(lab: Lab) -> None:
    """The fields of `status --json` that other programs rely on."""
    job = lab.detach(roles(lab, FOREVER, "[roles.worker]\n"))
    early = lab.status(job)
    assert next(t["state"] for t in early["tasks"]) in ("pending", "requested", "starting", "registered", "running")
    status = lab.wait(job, "running")
    until(lambda: lab.tasks(job)["worker:0"]["pid"], "the program's pid is known")
    status = lab.status(job)
    assert {"job", "name", "state", "session", "attempt", "exit_code", "folder", "am", "tasks", "failure"} <= set(
        status
    )
    (task,) = status["tasks"]
    assert {"task", "role", "index", "state", "host", "pid", "executor_pid", "session", "exit_code", "signal"} <= set(
        task
    )
    assert (status["session"], status["attempt"], task["session"]) == (1, 1, 1)
    assert Path(f"/proc/{task['pid']}/cmdline").read_bytes().split(b"\0")[0].endswith((b"python", b"bash"))
    assert Path(f"/proc/{task['executor_pid']}").exists()
    assert Path(f"/proc/{status['am']['pid']}").exists()
    lab.tony("kill", job, "--now")
    assert lab.wait(job)["state"] == "killed"
    assert json.loads(lab.tony("list", "--json").stdout)[0]["job"] == job
