"""What is the local scheduler's own, beyond the contract that all share."""

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.local_scheduler import LocalBench, bench
from tests.facts import mentions
from tests.support.waiting import wait_until
from tony.core.events import ContainerEnded, Event, Granted, Queued
from tony.errors import ConfigError, SchedulerError, StorageError
from tony.linux import process
from tony.model.ids import TaskId
from tony.model.job_spec import MIB, JobSpec, Resources, Role
from tony.model.log_name import WATCHDOG_WORDS
from tony.model.setting_choices import AfterCondition
from tony.model.staged_files import StagedRole
from tony.schedulers.allocator_interface import KnownContainer
from tony.schedulers.local.allocator import LocalAllocator
from tony.schedulers.local.claims.ledger import ResourceLedger, create_claim
from tony.schedulers.local.containers.container_recovery import read_launch_record
from tony.storage.environments.localization import Interpreter
from tony.testing.sample_jobs import build_credentials, build_prepared_job, build_task_part, build_two_roles


@asynccontextmanager
async def opened(folder: Path, **more: Any) -> AsyncIterator[tuple[LocalBench, list[Event]]]:
    """An open source, and the events that come of it."""
    async with bench(folder, **more) as made:
        events: list[Event] = []
        await made.source.open(events.append)
        yield made, events


async def granted(made: LocalBench, events: list[Event], role: str, total: int) -> list[str]:
    made.source.set_demand(role, total)
    await wait_until(lambda: len(containers(events, role)) >= total)
    return containers(events, role)


def containers(events: list[Event], role: str) -> list[str]:
    return [event.container for event in events if isinstance(event, Granted) and event.role == role]


def reasons(events: list[Event]) -> list[str]:
    return [event.reason for event in events if isinstance(event, Queued)]


def open_files(pid: int) -> set[str]:
    return {os.path.realpath(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")}


async def open_allocator(folder: Path, executor: list[str]) -> tuple[LocalAllocator, list[Event]]:
    """Return an allocator whose executors are other programs, with container `c-1` for ps, and its events."""
    job = build_prepared_job(folder, replace(build_two_roles(), scheduler_settings={"ledger": str(folder / "ledger")}))
    source = LocalAllocator(job, executor_command=executor)
    events: list[Event] = []
    await source.open(events.append)
    source.set_demand("ps", 1)
    await wait_until(lambda: bool(containers(events, "ps")))
    return source, events


def ends(events: list[Event]) -> list[ContainerEnded]:
    return [event for event in events if isinstance(event, ContainerEnded)]


async def launch(made: LocalBench, container: str, role: str, index: int = 0) -> None:
    await made.source.launch(
        container, build_task_part(made.spec, made.job_id, container, role, index), build_credentials()
    )


def spec(**roles: Role) -> JobSpec:
    return JobSpec(roles=roles, command="true")


def small(gpus: int = 0, instances: int = 1, memory: int = 16 * MIB, after: str | None = None) -> Role:
    order = {after: AfterCondition.SUCCEEDED} if after else {}
    return Role(instances=instances, resources=Resources(memory=memory, gpus=gpus), after=order)


async def test_containers_get_devices_of_their_own(tmp_path: Path) -> None:
    """Each container's executor is told which devices are its own; without GPUs it is told that none is."""
    async with opened(tmp_path, spec=spec(worker=small(2, 2), ps=small()), settings={"gpus": 4}) as (made, events):
        found = [*await granted(made, events, "worker", 2), *await granted(made, events, "ps", 1)]
        for container, role, index in zip(found, ("worker", "worker", "ps"), (0, 1, 0), strict=True):
            await launch(made, container, role, index)
        told = [(await made.context(container)).container.gpu_devices for container in found]
        assert told == [("0", "1"), ("2", "3"), ()]


async def test_an_executor_gets_its_host_folders_and_environment(tmp_path: Path) -> None:
    """Also its marker and control group; the program inherits the environment of the AM."""
    async with opened(tmp_path) as (made, events):
        (container,) = await granted(made, events, "ps", 1)
        await launch(made, container, "ps")
        part = (await made.context(container)).container
        folder = made.job.folder
        assert (part.host, part.inherit_env) == ("127.0.0.1", True)
        assert (part.work_folder, part.log_folder) == (str(folder.work / "ps-0"), str(folder.logs))
        assert os.listdir(part.work_folder) == []
        assert part.marker.startswith(f"{made.job_id}/{container}/")
        report = await made.report(container)
        assert report["session"] == report["pid"]
        noted = read_launch_record(folder.remains)
        assert (noted.groups, list(noted.executors)) == (part.cgroup, [report["pid"]])


async def test_executor_holds_the_claim(tmp_path: Path) -> None:
    """With its file open the claim outlives the application master, for as long as an executor needs it."""
    async with opened(tmp_path) as (made, events):
        (container,) = await granted(made, events, "ps", 1)
        await launch(made, container, "ps")
        assert open_files((await made.report(container))["pid"]) & {str(path) for path in made.ledger.glob("*.claim")}


async def test_large_launch_context(tmp_path: Path) -> None:
    """What does not fit into a pipe arrives all the same, and does not stop the loop meanwhile."""
    async with opened(tmp_path) as (made, events):
        (container,) = await granted(made, events, "ps", 1)
        part = replace(build_task_part(made.spec, made.job_id, container, "ps", 0), env={"LARGE": "x" * 3_000_000})
        await made.source.launch(container, part, build_credentials())
        assert (await made.fetch_payload(container))[0] == part


async def test_last_words_are_quoted(tmp_path: Path) -> None:
    """An executor that fails says why in its log; the cause repeats its last line and says where the log is."""
    async with opened(tmp_path) as (made, events):
        (made.folder / "c-1.exit").write_text("7")
        (container,) = await granted(made, events, "ps", 1)
        await launch(made, container, "ps")
        await wait_until(lambda: bool(ends(events)))
        log = made.job.folder.logs / "ps-0.executor.log"
        assert mentions(ends(events)[0].cause, "code 7", log)


async def test_last_words_are_those_of_the_executor(tmp_path: Path) -> None:
    """Its watchdog writes into the same log, sometimes below them."""
    said = f"echo a bug; echo 'the executor died{WATCHDOG_WORDS}0 processes'; exit 70"
    source, events = await open_allocator(tmp_path, ["sh", "-c", said])
    task = build_task_part(source._job.record.spec, source._job.folder.job_id, "c-1", "ps", 0)
    await source.launch("c-1", task, build_credentials())
    await wait_until(lambda: bool(ends(events)))
    assert ends(events)[0].cause.startswith("its executor exited with exit code 70: a bug; full log: ")
    await source.close()


async def test_missing_executor(tmp_path: Path) -> None:
    """A program that is not there is said so, and the container is gone."""
    source, _ = await open_allocator(tmp_path, ["/no/such/program"])
    task = build_task_part(source._job.record.spec, source._job.folder.job_id, "c-1", "ps", 0)
    with pytest.raises(SchedulerError, match=r"cannot start the executor of ps:0: /no/such/program"):
        await source.launch("c-1", task, build_credentials())
    await source.close()


async def test_container_can_be_ended_while_its_environment_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conda-unpack may take half an hour. It is ended with its container, and nothing is started."""

    def unpack(role: StagedRole, cache: Path, work_folder: Path, env: Mapping[str, str]) -> Interpreter:
        ended = subprocess.run(["sh", "-c", f"touch {tmp_path}/unpacks; exec sleep 600"], env={**os.environ, **env})
        raise StorageError(f"conda-unpack failed (exit code {ended.returncode})")

    monkeypatch.setattr("tony.schedulers.local.containers.task_launcher.localize", unpack)
    async with opened(tmp_path) as (made, events):
        (container,) = await granted(made, events, "ps", 1)
        launching = asyncio.create_task(launch(made, container, "ps"))
        await wait_until((tmp_path / "unpacks").exists)
        made.source.set_demand("ps", 0)
        made.source.kill(container, "the job was killed")
        await launching
        await wait_until(lambda: bool(ends(events)))
        assert ends(events)[0].cause == "killed: the job was killed"


async def test_later_roles_take_the_room_of_earlier_ones(tmp_path: Path) -> None:
    """A job holds its peak only; what its own earlier roles still hold is waited for, and that is said."""
    roles = spec(train=small(1, 2, 100 * MIB), export=small(2, 1, 200 * MIB, after="train"))
    async with opened(tmp_path, spec=roles, settings={"memory": 200 * MIB, "gpus": 2}) as (made, events):
        train = await granted(made, events, "train", 2)
        made.source.set_demand("train", 0)
        made.source.set_demand("export", 1)
        await wait_until(lambda: any(reasons(events)))
        (reason,) = reasons(events)
        assert mentions(reason, "0 bytes", "0 GPUs", "1 of export", "train")
        for container in train:
            made.source.release(container, 0.0)
        await granted(made, events, "export", 1)
        assert reasons(events)[-1] == ""


async def test_closed_while_waiting(tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()
    ledger = ResourceLedger(tmp_path / "ledger")
    with ledger.lock():
        held = ledger.post(replace(create_claim(job="other", job_name="n", memory=100 * MIB, gpus=0), devices=()))
    async with opened(tmp_path, settings={"memory": 100 * MIB}) as (made, events):
        await wait_until(lambda: bool(events))
        await made.source.close()
        assert len(os.listdir(made.ledger)) == 1
    held.withdraw()
    ledger.close()


def test_unusable_settings(tmp_path: Path) -> None:
    """Settings that only the application master sees wrong are still all told."""
    job = build_prepared_job(tmp_path, replace(build_two_roles(), scheduler_settings={"speed": 1, "gpus": -1}))
    with pytest.raises(ConfigError) as caught:
        LocalAllocator(job)
    assert len(caught.value.problems) == 2


def test_a_private_ledger_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where no ledger can be shared the job runs all the same, and the log says what that means."""
    (tmp_path / "shared").write_text("in the way")
    monkeypatch.setattr("tony.schedulers.local.claims.ledger.open_ledger.__defaults__", (tmp_path / "shared",))

    async def scenario() -> None:
        source = LocalAllocator(build_prepared_job(tmp_path / "home", build_two_roles()))
        events: list[Event] = []
        await source.open(events.append)
        source.set_demand("ps", 1)
        await wait_until(lambda: bool(containers(events, "ps")))
        await source.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert mentions(caplog.text, "GPUs", "users")


class Inherited:
    """What a master knows of its supervisor, as far as this source asks."""

    lives = False

    def __init__(self, claim: int) -> None:
        self.claim = claim

    def pass_on(self, claim: int) -> None:
        """Discard the message: there is no subscriber."""


async def test_a_later_am_recovers_running_containers(tmp_path: Path) -> None:
    """Executors continue with their resources; dead ones are not recovered; nothing of them is left; no number is
    given twice."""
    async with opened(tmp_path, spec=spec(worker=small(1, 3)), settings={"gpus": 3}) as (made, events):
        found = await granted(made, events, "worker", 3)
        for index, container in enumerate(found):
            await launch(made, container, "worker", index)
        pids = [int((await made.report(container))["pid"]) for container in found]
        devices = [(await made.context(container)).container.gpu_devices for container in found]
        claim = await die(made)
        os.kill(pids[1], signal.SIGKILL)
        await wait_until(lambda: not process.is_alive(pids[1]))
        for number in (1, 2):
            made.job.folder.events(number).write_text('{"container":"c-7"}\n' if number == 1 else "")
        later = successor(made, claim)
        news: list[Event] = []
        await later.open(news.append)
        known = [
            KnownContainer(id=name, role="worker", host="127.0.0.1", task=TaskId("worker", index))
            for index, name in enumerate(found)
        ]
        never = KnownContainer(id="c-7", role="worker", host="127.0.0.1")
        assert await later.recover([*known, never]) == [found[0], found[2]]
        assert await later.recover(known) == [found[0], found[2]]
        assert [process.is_alive(pid) for pid in pids] == [True, False, True]
        later.set_demand("worker", 3)
        await wait_until(lambda: containers(news, "worker") == ["c-8"])
        await later.launch("c-8", build_task_part(made.spec, made.job_id, "c-8", "worker", 1), build_credentials())
        assert (await made.context("c-8")).container.gpu_devices == devices[1]
        later.set_demand("worker", 0)
        os.kill(pids[0], signal.SIGKILL)
        later.kill(found[2], "a test")
        await wait_until(lambda: len(ends(news)) == 2)
        assert {end.container: end.cause for end in ends(news)} == {
            found[0]: "its executor exited (exit code unknown)",
            found[2]: "killed: a test",
        }
        await later.close()
        assert await made.list_leftovers() == []


async def die(made: LocalBench) -> int:
    """Has the source do nothing any longer, as far as that can be in one process; answers what its supervisor keeps."""
    source = made.source
    assert isinstance(source, LocalAllocator)
    source._sink = None
    for task in source._tasks:
        task.cancel()
    await source._server.close()
    assert source._claim
    return os.dup(source._claim.descriptors[0])


def successor(made: LocalBench, claim: int) -> LocalAllocator:
    """The source of the next master. Its supervision is fake: a test's own process can adopt no orphans."""
    assert isinstance(made.source, LocalAllocator)
    later = LocalAllocator(made.job, executor_command=made.source._command)
    later._supervisor = Inherited(claim)  # type: ignore[assignment]
    return later


async def test_nothing_is_granted_before_recovery(tmp_path: Path) -> None:
    """Otherwise a later AM would give the ids of running containers to new ones."""
    async with opened(tmp_path, spec=spec(worker=small(0, 2))) as (made, events):
        (container,) = await granted(made, events, "worker", 1)
        await launch(made, container, "worker")
        pid = int((await made.report(container))["pid"])
        later = successor(made, await die(made))
        made.job.folder.events(1).write_text(f'{{"container":"{container}"}}\n')
        made.job.folder.events(2).touch()
        news: list[Event] = []
        later.set_demand("worker", 2)
        await later.open(news.append)
        await wait_until(lambda: later._admitted)
        later.set_demand("worker", 2)
        known = KnownContainer(id=container, role="worker", host="127.0.0.1", task=TaskId("worker", 0))
        assert await later.recover([known]) == [container]
        assert process.is_alive(pid)
        await wait_until(lambda: bool(containers(news, "worker")))
        assert (container, containers(news, "worker")) == ("c-1", ["c-2"])
        await later.close()


async def test_a_master_that_fails_before_it_has_begun_leaves_nothing_either(tmp_path: Path) -> None:
    """Of its predecessors: it is closed without having been opened."""
    async with opened(tmp_path) as (made, events):
        (container,) = await granted(made, events, "worker", 1)
        await launch(made, container, "worker")
        pid = int((await made.report(container))["pid"])
        later = successor(made, await die(made))
        await later.close()
        assert not process.is_alive(pid)
        assert await made.list_leftovers() == []
