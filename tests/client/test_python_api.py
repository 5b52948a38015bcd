"""The Python API: blocking where one blocks, awaitable where one awaits, and the same in both."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, assert_type

import pytest

import tony
from tests.jobs.fake_am import JOB, TWO_WORKERS, FakeAm, failed, logged, recorded, standing, succeeded, write_log
from tests.jobs.recording_scheduler import Desk, Office
from tests.support.waiting import wait_until
from tony.client import python_api
from tony.client.python_api import iterate, run
from tony.core.events import Queued
from tony.errors import InfraError, ProgramError, UnknownJobError, UserError
from tony.history.event_log import LogEntry
from tony.history.job_record import write_summary
from tony.jobs.state_dir import get_user_name
from tony.jobs.status import remote_job_sync
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.state_directory import Home
from tony.model.states import JobState, TaskState
from tony.protocol.client_messages import GetStacks, RestartJob
from tony.protocol.shared_messages import SetLogLevel, Stacks
from tony.schedulers import registry


@pytest.fixture
def here(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("TONY_HOME", str(home.path))
    return home


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = Desk()
    monkeypatch.setattr(registry, "load", lambda name: Office(desk))
    return desk


class TestSubmit:
    def test_a_job_file(self, here: Home, desk: Desk, tmp_path: Path) -> None:
        """Settings of the call are laid over it, table by table."""
        file = tmp_path / "job.toml"
        file.write_text('command = "true"\nmax_restarts = 1\n[roles.worker]\ninstances = 2\nmemory = "2g"\n')
        job = tony.submit(file, scheduler="local", name="mine", roles={"worker": {"instances": 4}})
        spec = desk.jobs[0].record.spec
        assert (spec.name, spec.max_restarts, spec.roles["worker"].instances) == ("mine", 1, 4)
        assert spec.roles["worker"].resources.memory == 2 << 30
        assert job.folder == here.job(job.id).path

    def test_a_spec(self, here: Home, desk: Desk) -> None:
        """Settings of the call are laid over it as well."""
        spec = tony.JobSpec(command=("true",), roles={"worker": tony.Role(instances=2)}, stop_grace=2.5)
        more: dict[str, Any] = {"roles.worker.instances": 3}
        tony.submit(spec, name="mine", **more)
        taken = desk.jobs[0].record.spec
        assert (taken.name, taken.command, taken.stop_grace) == ("mine", ("true",), 2.5)
        assert taken.roles["worker"].instances == 3
        assert desk.jobs[0].record.sources["name"] == "argument"

    def test_a_mapping(self, here: Home, desk: Desk) -> None:
        tony.submit({"command": "true", "stop_grace": "3s"})
        assert desk.jobs[0].record.spec.stop_grace == 3.0

    def test_something_else(self, here: Home, desk: Desk) -> None:
        with pytest.raises(TypeError, match=r"a job cannot be 3 \(int\); give a tony.JobSpec, the path of a job file"):
            tony.submit(3)  # type: ignore[arg-type]
        assert desk.jobs == []

    def test_a_whole_spec_in_python(self, here: Home, desk: Desk) -> None:
        """Everything that it is made of is public."""
        spec = tony.JobSpec(
            command="true",
            roles={
                "worker": tony.Role(kind=tony.RoleKind.TRACKED),
                "eval": tony.Role(
                    after={"worker": tony.AfterCondition.STARTED},
                    timeout_after=tony.TimeoutAfter(group="all", limit=1.0, on_timeout=tony.OnTimeout.IGNORE),
                ),
            },
            groups={"all": ("worker",)},
            timeouts=tony.Timeouts(job=60.0),
            stop_on=tony.StopOn.ALL,
            failure_policy=tony.FailurePolicy.ANY_TASK,
            distributed_mode=tony.DistributedMode.GANG,
            tls=tony.TlsMode.AUTO,
        )
        tony.submit(spec)
        assert desk.jobs[0].record.spec.roles == spec.roles

    def test_errors_in_a_job(self, here: Home, desk: Desk) -> None:
        with pytest.raises(tony.ConfigError) as caught:
            tony.submit({"comand": "true", "stop_grace": 3})
        assert {problem.key for problem in caught.value.problems} >= {"comand", "stop_grace"}
        assert desk.jobs == []

    def test_notices_are_logged(self, here: Home, desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
        """A library does not print."""
        with caplog.at_level(logging.INFO, "tony"):
            tony.submit({"command": "true"})
        assert ("tony", logging.INFO, "a word before") in caplog.record_tuples

    async def test_in_a_running_loop(self, here: Home, desk: Desk) -> None:
        tony.submit({"command": "true"})
        await tony.submit_async({"command": "true"})
        assert len(desk.jobs) == 2


class TestJob:
    def test_attaching(self, here: Home) -> None:
        """By any part of the id that is enough."""
        recorded(here)
        assert (tony.attach(JOB).id, tony.attach("0a1b2c").id, tony.attach("last").id) == (JOB, JOB, JOB)
        assert repr(tony.attach("last")) == f"tony.attach({JOB!r})"
        with pytest.raises(UnknownJobError):
            tony.attach("x")

    async def test_attaching_to_a_job_of_the_cluster_in_a_notebook(
        self, here: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An event loop runs already where the scheduler is queried for an id that is not in the state directory."""
        job_id = "application_1700000000000_0001"

        async def adopt(home: Home, text: str) -> bool:
            recorded(home, text)
            return True

        monkeypatch.setattr(remote_job_sync, "adopt", adopt)
        assert tony.attach(job_id).id == job_id

    def test_a_job_of_a_scheduler_that_is_not_installed(self, here: Home) -> None:
        settings = replace(TWO_WORKERS, scheduler="gone")
        recorded(here, spec=settings)
        with pytest.raises(InfraError, match="scheduler 'gone', which is not installed here"):
            run(tony.attach(JOB).aio.timeline())

    def test_an_ended_job(self, here: Home) -> None:
        """Everything can be had from its record."""
        folder, record = recorded(here)
        write_log(folder, "worker-0.s1.t1.out", b"a\nb\xff\n")
        write_log(folder, "worker-1.s1.t1.err", "c\n")
        logged(folder, [Queued(reason="x")])
        write_summary(folder, failed(folder, record))
        job = tony.attach(JOB)
        assert job.status() == failed(folder, record) == job.wait() == job.wait(timeout=0)
        assert list(job.logs("worker:0")) == ["a", "b\ufffd"]
        assert list(job.logs()) == ["worker:0 | a", "worker:0 | b\ufffd", "worker:1 | c"]
        assert list(job.logs(stream="err", follow=True)) == ["worker:1 | c"]
        assert list(job.logs("worker:0", tail=1)) == ["b\ufffd"]
        assert list(job.logs("worker", tail=1)) == ["worker:0 | b\ufffd", "worker:1 | c"]
        assert [entry.event for entry in job.events()] == [Queued(reason="x")]
        job.kill()

    def test_a_failure_as_an_error(self, here: Home) -> None:
        folder, record = recorded(here)
        write_summary(folder, failed(folder, record))
        with pytest.raises(ProgramError, match="worker:1 on here: exit code 3"):
            tony.attach(JOB).wait(check=True)
        folder, record = recorded(here, "local-20260102-000000-0a1b2c")
        write_summary(folder, succeeded(folder, record))
        assert tony.attach("last").wait(check=True).exit_code == 0

    def test_no_such_stream(self, here: Home) -> None:
        recorded(here)
        with pytest.raises(ValueError, match="write 'out' or 'err'"):
            list(tony.attach(JOB).logs(stream="stdout"))

    def test_no_such_task(self, here: Home) -> None:
        recorded(here)
        with pytest.raises(UserError, match="has no task 'chief:0'; it has worker:0, worker:1"):
            list(tony.attach(JOB).logs("chief:0"))
        with pytest.raises(UserError, match="has no task 'chief'"):
            list(tony.attach(JOB).logs("chief"))

    def test_the_only_task(self, here: Home) -> None:
        """Its lines need no prefix, however it is named."""
        folder, record = recorded(here, spec=tony.JobSpec(command="true"))
        write_log(folder, "main-0.s1.t1.out", "a\n")
        write_summary(folder, succeeded(folder, record))
        job = tony.attach(JOB)
        assert [list(job.logs(name)) for name in (None, "main", "main:0")] == [["a"]] * 3

    async def test_a_living_job(self, here: Home) -> None:
        """The awaitable twins, in the caller's own loop."""
        folder, record = recorded(here)
        job = tony.attach(JOB)
        running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
        async with FakeAm(folder, running) as master:
            assert await job.aio.status() == running
            with pytest.raises(TimeoutError, match=f"job {JOB} has not ended within 0.05 s; it continues"):
                await job.aio.wait(timeout=0.05)
            await job.aio.kill(now=True)
            assert master.kills[0].now
            write_log(folder, "worker-0.s1.t1.out", "a\n")
            await wait_until(lambda: not master.watched)

            async def end() -> None:
                await wait_until(lambda: master.watched)
                await master.finish(succeeded(folder, record))

            async with asyncio.TaskGroup() as group:
                group.create_task(end())
                assert await job.aio.wait() == succeeded(folder, record)
        assert [line async for line in job.aio.logs("worker:0")] == ["a"]
        assert [entry async for entry in job.aio.events()] == []

    def test_waiting_in_the_blocking_way(self, here: Home) -> None:
        """Until the end; and not longer than one wants."""
        folder, record = recorded(here)
        master = FakeAm(folder, standing(folder, record, JobState.RUNNING, TaskState.RUNNING))
        run(master.__aenter__())
        try:
            with pytest.raises(TimeoutError):
                tony.attach(JOB).wait(0.05)

            def end() -> None:
                run(wait_until(lambda: master.watched))
                run(master.finish(succeeded(folder, record)))

            thread = threading.Thread(target=end)
            thread.start()
            assert tony.attach(JOB).wait().state is JobState.SUCCEEDED
            thread.join()
        finally:
            run(master.die())

    def test_telling_a_job_something(self, here: Home) -> None:
        """The next session, where its programs stand, how much it logs; each names who wants it."""
        folder, record = recorded(here)
        master = FakeAm(folder, standing(folder, record, JobState.RUNNING, TaskState.RUNNING))
        master.standing = {"worker:1": Stacks(task="worker:1", text="train", how="py-spy")}
        run(master.__aenter__())
        try:
            job = tony.attach(JOB)
            job.restart()
            told = list(job.stacks())
            assert [(each.task, each.text, each.how) for each in told] == [
                ("worker:0", "", ""),
                ("worker:1", "train", "py-spy"),
            ]
            assert "not connected" in told[0].problem
            assert [each.task for each in job.stacks("worker:1")] == ["worker:1"]
            job.set_log_level("debug")
            assert master.orders == [
                RestartJob(actor=get_user_name()),
                *(GetStacks(actor=get_user_name(), task=TaskId("worker", n)) for n in (0, 1, 1)),
                SetLogLevel(level="debug", actor=get_user_name()),
            ]
            with pytest.raises(UserError, match="has no task 'chief'; it has worker:0, worker:1"):
                list(job.stacks("chief"))
            with pytest.raises(ValueError, match="level='loud': write one of debug"):
                job.set_log_level("loud")
            run(master.finish(succeeded(folder, record)))
            for do in (job.restart, lambda: list(job.stacks()), lambda: job.set_log_level("info")):
                with pytest.raises(UserError, match="succeeded"):
                    do()
        finally:
            run(master.die())

    def test_every_change(self, here: Home) -> None:
        """One report after the other, until the last one; who stops listening stops nothing else."""
        folder, record = recorded(here)
        running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
        master = FakeAm(folder, running)
        run(master.__aenter__())
        try:
            stopped = tony.attach(JOB).reports()
            assert next(stopped) == running
            stopped.close()  # type: ignore[attr-defined]
            stream = tony.attach(JOB).reports()
            assert next(stream) == running
            run(wait_until(lambda: master.watched))
            run(master.finish(succeeded(folder, record)))
            assert [report.state for report in stream] == [JobState.SUCCEEDED]
        finally:
            run(master.die())


class TestBackground:
    def test_an_error_is_raised_unchanged(self) -> None:
        async def fail() -> None:
            raise LookupError("x")

        with pytest.raises(LookupError, match="x"):
            run(fail())

    def test_ending_an_iteration_early(self) -> None:
        """The generator is ended, in its own loop."""
        ended: list[str] = []

        async def numbers() -> AsyncGenerator[int, None]:
            try:
                for n in range(10):
                    yield n
            finally:
                ended.append(threading.current_thread().name)

        stream = iterate(numbers())
        assert [next(stream), next(stream)] == [0, 1]
        stream.close()  # type: ignore[attr-defined]
        assert ended == ["tony"]

    def test_a_forked_process_has_a_loop_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Threads do not survive a fork."""

        async def thread() -> int:
            return threading.get_ident()

        before = run(thread())
        assert run(thread()) == before
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert run(thread()) != before
        monkeypatch.undo()
        python_api._current = None


def test_blocking_methods_are_those_of_the_view() -> None:
    """Type checkers, `help()` and editors see the arguments; what is awaited is returned, and iterators iterate."""

    def check(job: tony.Job, there: tony.PortalJob) -> None:
        assert_type(job.status(), JobReport)
        assert_type(job.wait(3.0, check=True), JobReport)
        assert_type(job.logs("worker:0", follow=True), Iterator[str])
        assert_type(job.stacks("worker:0"), Iterator[Stacks])
        assert_type(job.events(), Iterator[LogEntry])
        assert_type(job.reports(), Iterator[JobReport])
        assert_type(job.kill(now=True), JobReport)
        assert_type(there.restart(), JobReport)
        assert_type(there.set_log_level("debug"), JobReport)

    assert callable(check)
    assert inspect.signature(tony.Job.logs).return_annotation == Iterator[str]
    assert "tail" in inspect.signature(tony.Job.logs).parameters
    assert "timeout" in (tony.Job.wait.__doc__ or "")


def test_the_public_names_are_there() -> None:
    """Each of them can be had from `tony`."""
    for name in tony.__all__:
        assert getattr(tony, name) is not None
    assert set(tony.__all__) <= set(dir(tony))
