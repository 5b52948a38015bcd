"""What an executor is told at its launch, and to start its program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.core.specs import task, workers
from tony.am.executor_instructions import StartMessages, build_container_setup, build_task_part
from tony.core.actions import Launch, Start
from tony.errors import PlatformError, UserError
from tony.frameworks.framework_interface import Framework, TaskView
from tony.frameworks.no_framework import NoFramework
from tony.frameworks.registry import home_of, load
from tony.model.ids import TaskId
from tony.model.job_spec import GIB, MIB, ClusterSpec, JobSpec, Resources, Role
from tony.model.setting_choices import DistributedMode, RendezvousKind, ReservedPort, RoleKind
from tony.model.staged_files import Placement, StagedItem, StagedJob, StagedRole
from tony.protocol.executor_messages import StartProgram
from tony.protocol.framing import MAX_FROM_AM, Decoder
from tony.protocol.launch import TaskPart
from tony.protocol.message_base import Message
from tony.testing.sample_jobs import build_prepared_job

SPEC = JobSpec(
    command="train",
    env={"A": "1", "B": "1"},
    params={"lr": "0.1"},
    port_range=(5000, 5999),
    stop_grace=7.0,
    orphan_grace=3.0,
    distributed_mode=DistributedMode.FCFS,
    roles={
        "chief": Role(),
        "worker": Role(
            instances=2,
            command=("python", "w.py"),
            env={"B": "2"},
            resources=Resources(memory=512 * MIB, vcores=3, gpus=1),
            stop_grace=1.0,
            port_range=(6000, 6099),
            port=ReservedPort.FREE,
            procs_per_task=4,
        ),
        "board": Role(kind=RoleKind.SIDECAR),
    },
)


def part(folder: Path, who: str, spec: JobSpec = SPEC) -> TaskPart:
    """A task's part in session 3 of attempt 2."""
    record = build_prepared_job(folder, spec, job_id="j-1").record
    return build_task_part(
        record,
        load(home_of(spec.framework)),
        2,
        Launch(container="c-9", task=task(who), session=3),
        "unix:/am.sock",
        600.0,
    )


def test_roles_inherit_values_of_the_job(tmp_path: Path) -> None:
    """A role that says nothing itself has the job's values."""
    told = part(tmp_path, "chief:0")
    assert (told.job_id, told.attempt, told.session, told.container) == ("j-1", 2, 3, "c-9")
    assert (told.role, told.index, told.am_address) == ("chief", 0, "unix:/am.sock")
    assert (told.command, told.env) == ("train", {"A": "1", "B": "1"})
    assert (told.port_range, told.stop_grace, told.lease) == ((5000, 5999), 7.0, 3.0)
    assert (told.memory, told.gpus) == (GIB, 0)
    assert told.job_settings == SPEC.program_settings
    assert told.job_settings.params == {"lr": "0.1"}
    assert told.job_settings.distributed_mode is DistributedMode.FCFS


def test_a_role_overrides_the_jobs_values(tmp_path: Path) -> None:
    """Its own command, variables, ports, grace and resources."""
    told = part(tmp_path, "worker:1")
    assert (told.command, told.env) == (("python", "w.py"), {"A": "1", "B": "2"})
    assert (told.port_range, told.role_settings.port, told.stop_grace) == ((6000, 6099), ReservedPort.FREE, 1.0)
    assert (told.memory, told.gpus) == (512 * MIB, 1)


def test_the_job_shape_is_in_every_launch_context(tmp_path: Path) -> None:
    """Ranks are counted from it; sidecars are not among the tasks that count."""
    for who in ("chief:0", "worker:1", "board:0"):
        told = part(tmp_path, who)
        assert list(told.instances.items()) == [("chief", 1), ("worker", 2), ("board", 1)]
        assert told.procs == {"chief": 1, "worker": 4, "board": 1}
        assert (told.chief, told.num_tasks) == (task("chief:0"), 3)


@pytest.mark.parametrize(("extra", "who"), [({}, "chief:0"), ({"tensorboard": Role()}, "tensorboard:0")])
def test_one_task_gets_a_port_for_tensorboard(tmp_path: Path, extra: dict[str, Role], who: str) -> None:
    """The `tensorboard` role if there is one, else the chief."""
    spec = JobSpec(command="train", roles={**SPEC.roles, **extra})
    wants = [str(each) for each in spec.task_ids if part(tmp_path, str(each), spec).wants_tb_port]
    assert wants == [who]


def test_each_possible_chief_reserves_the_tensorboard_port(tmp_path: Path) -> None:
    """With an elastic role the first task that takes part serves TensorBoard."""
    spec = JobSpec(command="train", roles={"worker": Role(instances=3, min_instances=1), "ps": Role()})
    parts = {str(each): part(tmp_path, str(each), spec) for each in spec.task_ids}
    assert {who: (told.wants_tb_port, told.board) for who, told in parts.items()} == {
        **{f"worker:{index}": (True, task("worker:0")) for index in range(3)},
        "ps:0": (False, None),
    }


def test_only_one_task_gets_a_rendezvous(tmp_path: Path) -> None:
    """On that task's port only."""
    spec = JobSpec(command="train", framework="horovod", roles={"worker": Role(instances=2)})
    assert [part(tmp_path, who, spec).meeting for who in ("worker:0", "worker:1")] == [
        RendezvousKind.STORE,
        None,
    ]
    assert part(tmp_path, "chief:0").meeting is None


def test_an_adapter_that_breaks_is_named(tmp_path: Path) -> None:
    class Broken(NoFramework):
        def choose_rendezvous(self, spec: JobSpec, task: TaskId) -> RendezvousKind | None:
            raise KeyError("oh")

    record = replace(build_prepared_job(tmp_path, SPEC).record, framework_module="my.own:Broken")
    with pytest.raises(PlatformError, match=r"the framework adapter my\.own:Broken failed: KeyError: 'oh'"):
        build_task_part(record, Broken(), 1, Launch(container="c", task=task("chief:0"), session=1), "unix:/x", 0.0)


def test_container_setup_names_the_slow_part(tmp_path: Path) -> None:
    """An environment takes longer than files, so it is named."""
    record = build_prepared_job(tmp_path, SPEC).record
    assert build_container_setup(record, "worker") == "copying its files"
    item = StagedItem(name="env", digest="0" * 64, size=1, placement=Placement.PYTHON)
    staged = StagedJob(roles={"worker": StagedRole(items=(item,))})
    assert build_container_setup(replace(record, staged=staged), "worker") == "unpacking the Python environment"
    assert build_container_setup(replace(record, staged=staged), "chief") == "copying its files"


# --- commands to start ----------------------------------------------------------------------------------------------


class Listing(Framework):
    """Gives every task the list of addresses, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    def build_shared(self, spec: JobSpec, cluster: ClusterSpec) -> Any:
        self.asked += 1
        if self.error:
            raise self.error
        return {role: list(addresses) for role, addresses in cluster.roles.items()}

    def environment(self, shared: Any, task: TaskView) -> Sequence[dict[str, str]]:
        return [{}]


@pytest.fixture
def framework() -> Listing:
    return Listing()


@pytest.fixture
def starts(tmp_path: Path, framework: Listing) -> StartMessages:
    """Of attempt 3 at a job of three workers."""
    return StartMessages(build_prepared_job(tmp_path, workers(3)).record, framework, 3)


def cluster(session: int = 1, version: int = 1) -> ClusterSpec:
    return ClusterSpec(session=session, version=version, roles={"worker": ("a:1", "b:2", "c:3")})


def start(index: int = 0, session: int = 1, try_: int = 1, version: int = 1, **variables: str) -> Start:
    return Start(task=TaskId("worker", index), session=session, try_=try_, version=version, variables=variables)


def message(frame: bytes) -> Message | None:
    decoder = Decoder(MAX_FROM_AM)
    decoder.feed(frame)
    return decoder.decode_next()


def test_all_tasks_get_the_same_bytes(starts: StartMessages, framework: Listing) -> None:
    """Asked once, encoded once: the ten thousandth start costs nothing more."""
    starts.publish(cluster())
    frames = [starts.encode(start(index)) for index in range(3)]
    assert frames[0] is frames[1] is frames[2]
    assert framework.asked == 1
    assert message(frames[0]) == StartProgram(
        attempt=3, session=1, try_=1, version=1, shared={"worker": ["a:1", "b:2", "c:3"]}
    )


def test_a_later_version_or_try_is_an_order_of_its_own(starts: StartMessages) -> None:
    """Tasks that were started before keep theirs."""
    starts.publish(cluster(version=1))
    first = starts.encode(start())
    starts.publish(cluster(version=2))
    orders = [message(starts.encode(start(version=2))), message(starts.encode(start(try_=2, version=2)))]
    assert [(o.version, o.try_) for o in orders if isinstance(o, StartProgram)] == [(2, 1), (2, 2)]
    assert starts.encode(start()) is first


def test_exported_variables_are_in_the_start_message(starts: StartMessages) -> None:
    """Tasks with the same variables share the encoded bytes; tasks with others do not."""
    starts.publish(cluster())
    frames = [starts.encode(start(index, PARAMS="--lr 0.1")) for index in range(2)]
    assert frames[0] is frames[1]
    order = message(frames[0])
    assert isinstance(order, StartProgram)
    assert order.variables == {"PARAMS": "--lr 0.1"}
    assert message(starts.encode(start(PARAMS="--lr 0.2"))) != order
    assert message(starts.encode(start())) != order


def test_without_a_cluster_spec_nothing_is_shared(starts: StartMessages, framework: Listing) -> None:
    """First come, first served: version 0."""
    assert message(starts.encode(start(version=0))) == StartProgram(
        attempt=3, session=1, try_=1, version=0, shared=None
    )
    assert framework.asked == 0


def test_older_sessions_are_forgotten(starts: StartMessages) -> None:
    """A job that restarts for weeks does not grow, with cluster specs or without."""
    for session in range(1, 50):
        starts.publish(cluster(session=session))
        starts.encode(start(session=session))
        starts.encode(start(session=session, version=0))
    assert (len(starts._shared), len(starts._frames)) == (1, 2)
    assert isinstance(message(starts.encode(start(session=49))), StartProgram)


def test_an_adapter_that_fails_is_named(starts: StartMessages, framework: Listing) -> None:
    """A bug in a plug-in is said to be its, not ours; what it says on purpose is left as it is."""
    framework.error = KeyError("nope")
    with pytest.raises(PlatformError, match=r"adapter .* failed: KeyError: 'nope'"):
        starts.publish(cluster())
    framework.error = UserError("too many")
    with pytest.raises(UserError, match=r"^too many$"):
        starts.publish(cluster())


def test_addresses_that_placeholders_ask_for_are_in_the_order(tmp_path: Path, framework: Listing) -> None:
    """Of the role's first task; of no other role, and of none that has not registered."""
    roles = {"ps": Role(), "worker": Role(instances=3)}
    spec = JobSpec(command="run {address.worker}", env={"PS": "{address.ps}"}, roles=roles)
    starts = StartMessages(build_prepared_job(tmp_path, spec).record, framework, 1)
    starts.publish(cluster())
    sent = message(starts.encode(start()))
    assert isinstance(sent, StartProgram)
    assert sent.addresses == {"worker": "a:1"}


def test_without_such_placeholders_no_address_is_sent(starts: StartMessages) -> None:
    starts.publish(cluster())
    sent = message(starts.encode(start()))
    assert isinstance(sent, StartProgram)
    assert sent.addresses == {}
