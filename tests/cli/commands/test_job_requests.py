"""`restart`, `stacks` and `log-level`: what is asked of a job that runs, here and through a portal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.cli.conftest import Tony
from tests.cli.in_process_am import Beside, living
from tests.facts import mention_each, mentions
from tests.jobs.fake_am import JOB, failed, recorded, standing
from tests.web.home_source import HomeSource
from tests.web.serving import served
from tony import clock
from tony.errors import ConnectionFailedError
from tony.history.job_record import write_summary
from tony.jobs import actions
from tony.jobs.portal_client.client import PortalClient
from tony.jobs.state_dir import get_user_name
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec, Role
from tony.model.state_directory import Home
from tony.model.states import JobState, TaskState
from tony.portal.access.login_credentials import TokenFile
from tony.protocol.client_messages import GetStacks, RestartJob
from tony.protocol.shared_messages import SetLogLevel, Stacks
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

SPEC = JobSpec(name="digits", command="true", roles={"worker": Role(instances=2)}, editors=("mo",), viewers=("vic",))
SPIED = Stacks(
    task="worker:0", text="=== process 7: python\ntrain (t.py:1)\n", how="py-spy", name="worker-0.s1.t1.stacks"
)
NO_PYTHON = "no process of the program is Python: only the kernel's wait channels are shown"
SLEEPS = Stacks(task="worker:1", text="=== process 8: sleep\n\x1b[2Jhrtimer", how="kernel", problem=NO_PYTHON)


@dataclass(frozen=True)
class Running:
    """A job of two workers that runs, and its master."""

    beside: Beside
    report: JobReport

    @property
    def orders(self) -> list[object]:
        return [*self.beside.master.orders]


@pytest.fixture
def running(home: Home) -> Iterator[Running]:
    folder, record = recorded(home, spec=SPEC)
    report = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    with living(folder, report) as beside:
        beside.master.standing = {"worker:0": SPIED, "worker:1": SLEEPS}
        yield Running(beside, report)


@pytest.fixture
def ended(home: Home) -> str:
    folder, record = recorded(home, spec=SPEC)
    write_summary(folder, failed(folder, record))
    return JOB


@pytest.fixture
def portal(home: Home, tmp_path: Path) -> Iterator[str]:
    """A portal over the same jobs, which knows us by our process, and others by their tokens."""
    tokens = TokenFile(tmp_path)
    with served(
        create(
            ServerContext(
                HomeSource(home, "ann"), Authenticator(AuthConfig(key=tokens.load_key(), owner="ann", tokens=tokens))
            )
        )
    ) as port:
        yield f"http://127.0.0.1:{port}"


class TestRestart:
    def test_a_session(self, tony: Tony, running: Running) -> None:
        """It is said what happens, and that it does not count against `max_restarts`; the master knows who wants it."""
        answer = tony("restart", JOB)
        assert (answer.code, answer.err) == (0, "")
        assert mentions(answer.out, f"job {JOB}", "session 2", "max_restarts", f"tony status {JOB}")
        assert tony("restart", "last", "--json").json == {"job": JOB, "session": 1, "state": "running"}
        assert running.orders == [RestartJob(actor=get_user_name())] * 2

    def test_there_is_none_that_could_be_restarted(self, tony: Tony, running: Running) -> None:
        """The AM states why not; that is not reported as a bug."""
        running.beside.master.busy = "there is no session to restart: the job is restarting"
        answer = tony("restart", JOB)
        assert (answer.code, answer.err) == (
            2,
            f"tony: job {JOB} (digits): {running.beside.master.busy}; see: tony status {JOB}\n",
        )

    def test_an_am_that_disconnects(self, tony: Tony, running: Running) -> None:
        """The request is sent again, also to the next AM attempt, unless a new session has begun."""
        master = running.beside.master
        master.deaf = 1
        assert tony("restart", JOB).code == 0
        assert len(running.orders) == 2
        master.deaf = 1
        master.on_order = lambda message: master.change(replace(running.report, session=2))
        assert tony("restart", JOB).code == 0
        assert len(running.orders) == 3

    def test_an_ended_job(self, tony: Tony, ended: str) -> None:
        """There is nothing to restart: it is said when it ended, and what to do."""
        answer = tony("restart", ended)
        assert answer.code == 2
        assert answer.err.startswith(f"tony: {actions.NOT_RESTARTED}: job {JOB} (digits) failed ")

    def test_a_job_that_has_not_begun(self, tony: Tony, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        """No AM answers before the timeout."""
        monkeypatch.setattr(actions, "ANSWER_TIMEOUT_SECONDS", 0.1)
        recorded(home, spec=SPEC, submitted=clock.wall())
        for line in (("restart", JOB), ("log-level", JOB, "info")):
            answer = tony(*line)
            assert answer.code == 3
            assert answer.err.startswith(
                f"tony: job {JOB} (digits) is submitted: its application master is not running"
            )

    def test_an_unknown_job(self, tony: Tony, ended: str) -> None:
        for command in (("restart", f"{JOB}x"), ("stacks", f"{JOB}x"), ("log-level", f"{JOB}x", "debug")):
            answer = tony(*command)
            assert (answer.code, f"did you mean {JOB}?" in answer.err) == (2, True)


class TestStacks:
    def test_of_all_tasks(self, tony: Tony, running: Running) -> None:
        """Each with who has looked; what a terminal would obey is made harmless."""
        answer = tony("stacks", JOB)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.splitlines() == [
            "worker:0: from py-spy; saved as worker-0.s1.t1.stacks among the logs",
            "=== process 7: python",
            "train (t.py:1)",
            "",
            "worker:1: from the kernel",
            NO_PYTHON,
            "=== process 8: sleep",
            "\\x1b[2Jhrtimer",
        ]
        assert running.orders == [GetStacks(actor=get_user_name(), task=TaskId("worker", n)) for n in (0, 1)]

    def test_as_json(self, tony: Tony, running: Running) -> None:
        lines = [json.loads(line) for line in tony("stacks", JOB, "--json").out.splitlines()]
        assert [line["how"] for line in lines] == ["py-spy", "kernel"]
        assert lines[0] == {
            "task": "worker:0",
            "text": SPIED.text,
            "how": "py-spy",
            "problem": "",
            "name": "worker-0.s1.t1.stacks",
        }

    def test_of_some_that_do_not_answer(self, tony: Tony, running: Running) -> None:
        """It is said why; the exit code tells whether there was anything at all."""
        del running.beside.master.standing["worker:0"]
        answer = tony("stacks", JOB)
        assert (answer.code, "worker:1: from the kernel" in answer.out) == (0, True)
        assert mentions(answer.err, "worker:0")
        answer = tony("stacks", JOB, "worker:0")
        assert (answer.code, answer.out) == (3, "")
        assert tony("stacks", JOB, "--task", "worker:0", "--json").code == 3

    def test_stacks_of_many_tasks_are_requested_in_batches(self, tony: Tony, home: Home) -> None:
        """In the order of the tasks; those whose programs do not run are left out."""
        folder, record = recorded(home, spec=replace(SPEC, roles={"worker": Role(instances=40)}))
        report = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
        over = replace(report.tasks[7], state=TaskState.SUCCEEDED)
        report = replace(report, tasks=(*report.tasks[:7], over, *report.tasks[8:]))
        names = [f"worker:{n}" for n in range(40) if n != 7]
        with living(folder, report) as beside:
            beside.master.standing = {name: replace(SPIED, task=name) for name in names}
            answer = tony("stacks", JOB, "--json")
        assert [json.loads(line)["task"] for line in answer.out.splitlines()] == names

    def test_of_a_task_that_is_not_there(self, tony: Tony, running: Running) -> None:
        answer = tony("stacks", JOB, "chief")
        assert answer.code == 2
        assert mentions(answer.err, "chief", f"job {JOB}", "worker:0", "worker:1")
        answer = tony("stacks", JOB, "a task")
        assert (answer.code, "write role:index such as worker:0" in answer.err) == (2, True)

    def test_of_a_job_in_which_nothing_runs(self, tony: Tony, home: Home) -> None:
        """It waits, or has ended; which of both is said."""
        folder, record = recorded(home, spec=SPEC)
        report = replace(standing(folder, record, JobState.QUEUED, TaskState.REQUESTED), waiting="worker: no room")
        with living(folder, report) as beside:
            answer = tony("stacks", JOB)
            assert (answer.code, answer.err.endswith(f"see: tony status {JOB}\n")) == (3, True)
            said = f"job {JOB} (digits) is queued (worker: no room): no task is running; "
            assert answer.err.startswith(f"tony: {said}")
            beside.finish(failed(folder, record))
        answer = tony("stacks", JOB)
        assert answer.code == 2
        assert answer.err.startswith(f"tony: {actions.NO_STACKS}: job {JOB} (digits) failed ")

    def test_of_a_job_that_has_ended(self, tony: Tony, home: Home) -> None:
        """Those that were saved when it hung."""
        folder, record = recorded(home, spec=SPEC)
        write_summary(folder, failed(folder, record))
        folder.logs.mkdir(exist_ok=True)
        (folder.logs / "worker-1.s1.t1.stacks").write_text("##### 2026-01-01T00:00:00.000Z py-spy\ntrain (t.py:1)\n")
        answer = tony("stacks", JOB)
        assert (answer.code, answer.err) == (0, "")
        assert mentions(answer.out, "worker:1", "2026-01-01T00:00:00.000Z", "train (t.py:1)", "worker-1.s1.t1.stacks")

    def test_stacks_while_the_am_disconnects(self, tony: Tony, running: Running) -> None:
        running.beside.master.deaf = 1
        answer = tony("stacks", JOB)
        assert (answer.code, answer.out) == (3, "")
        assert "without an answer" in answer.err


class TestLogLevel:
    def test_of_a_job(self, tony: Tony, running: Running) -> None:
        answer = tony("log-level", JOB, "debug")
        assert answer.code == 0
        assert mentions(answer.out, f"job {JOB}", "debug")
        assert tony("log-level", JOB, "info", "--json").json == {"job": JOB, "level": "info", "state": "running"}
        assert running.orders == [SetLogLevel(level=level, actor=get_user_name()) for level in ("debug", "info")]

    def test_that_is_none(self, tony: Tony, running: Running) -> None:
        answer = tony("log-level", JOB, "loud")
        assert answer.code == 2
        assert mentions(answer.err, "loud", "debug", "info", "warning", "error")
        assert running.orders == []

    def test_of_an_ended_job(self, tony: Tony, ended: str) -> None:
        answer = tony("log-level", ended, "debug")
        assert (answer.code, "no process of the job is running: job " in answer.err) == (2, True)


class TestThroughAPortal:
    def test_all_of_them(self, tony: Tony, running: Running, portal: str) -> None:
        """As on the page, the change is recorded under the portal's own user."""
        answer = tony("restart", "--portal", portal, JOB)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.startswith(f"Restarting job {JOB} (digits): session 2 ")
        assert tony("log-level", "--portal", portal, JOB, "debug").code == 0
        answer = tony("stacks", "--portal", portal, JOB)
        assert (answer.code, answer.err) == (0, "")
        assert mention_each(answer.out.splitlines()[:2], ("worker:0", "worker-0.s1.t1.stacks"), ("process 7",))
        assert f"worker:1: from the kernel\n{NO_PYTHON}" in answer.out
        assert running.orders == [
            RestartJob(actor="ann"),
            SetLogLevel(level="debug", actor="ann"),
            *(GetStacks(actor="ann", task=TaskId("worker", n)) for n in (0, 1)),
        ]

    def test_impossible_requests_are_refused(self, tony: Tony, running: Running, portal: str) -> None:
        """With the same messages as for a job that is recorded here."""
        master = running.beside.master
        master.busy = "there is no session to restart: the job is restarting"
        answer = tony("restart", "--portal", portal, JOB)
        assert (answer.code, master.busy in answer.err, "bug" in answer.err) == (2, True, False)
        answer = tony("stacks", "--portal", portal, JOB, "chief")
        assert (answer.code, "has no task 'chief'; it has worker:0, worker:1" in answer.err) == (2, True)
        master.standing.clear()
        answer = tony("stacks", "--portal", portal, JOB)
        assert (answer.code, answer.out) == (3, "")
        assert mentions(answer.err, "worker:1")

    def test_an_am_that_disconnects_is_not_asked_again_for_each_task(
        self, tony: Tony, running: Running, portal: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []

        def gone(self: PortalClient, job: str, task: str) -> Stacks:
            asked.append(task)
            raise ConnectionFailedError(f"{portal} cannot be reached")

        monkeypatch.setattr(PortalClient, "fetch_stacks", gone)
        answer = tony("stacks", "--portal", portal, JOB)
        assert (answer.code, answer.err) == (3, f"tony: {portal} cannot be reached\n")
        assert asked == ["worker:0"]
