"""A session that is without some tasks looks, to its programs, like one of a job that never had them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.am.executor_instructions import StartMessages, build_task_part
from tony.config.load import load as load_job
from tony.core.actions import Launch, Start
from tony.errors import ConfigError
from tony.executor.program.program_environment import build_common_environment, build_task_view
from tony.frameworks.horovod import Horovod
from tony.frameworks.registry import home_of, load, names
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec, Role
from tony.model.setting_choices import DistributedMode, RendezvousKind, RoleKind
from tony.model.staged_files import StagedJob
from tony.model.submission_record import RECORD_VERSION, JobRecord
from tony.protocol.executor_messages import StartProgram
from tony.protocol.framing import MAX_FROM_AM, Decoder

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Framework -> its roles beside the workers.
BESIDE: Mapping[str, dict[str, Role]] = {
    "tensorflow": {"chief": Role(), "ps": Role(kind=RoleKind.UNTRACKED, instances=2)},
    "mxnet": {"scheduler": Role(), "server": Role()},
}


def job(framework: str, most: int, least: int) -> JobSpec:
    """A job whose workers can be fewer."""
    workers = Role(instances=most, min_instances=least)
    return JobSpec(framework=framework, command="x", roles={**BESIDE.get(framework, {}), "worker": workers})


def told(spec: JobSpec, cluster: ClusterSpec) -> dict[str, Any]:
    """Address -> everything that the program there is told, by way of the order to start that all get."""
    framework = load(home_of(spec.framework))
    record = JobRecord(
        version=RECORD_VERSION,
        job_id="j",
        user="ann",
        host="h",
        submitted=0.0,
        tony_version="0",
        spec=spec,
        staged=StagedJob(),
        framework_module=home_of(spec.framework),
    )
    starts = StartMessages(record, framework, 1)
    starts.publish(cluster)
    found = {}
    for role, addresses in cluster.roles.items():
        present = [i for i in range(spec.roles[role].instances) if i not in cluster.absent.get(role, ())]
        for index, address in zip(present, addresses, strict=True):
            task = TaskId(role, index)
            decoder = Decoder(MAX_FROM_AM)
            decoder.feed(starts.encode(Start(task=task, session=1, try_=1, version=1)))
            order = decoder.decode_next()
            assert isinstance(order, StartProgram)
            part = build_task_part(record, framework, 1, Launch(container="c", task=task, session=1), "unix:/x", 1.0)
            seen = build_task_view(part, order, address, 6006 if part.wants_tb_port else None)
            found[address] = (
                build_common_environment(seen),
                framework.environment(order.shared, seen),
                dict(seen.instances),
            )
    return found


@pytest.mark.parametrize("framework", sorted(set(names()) - {"standalone"}))
@given(data=st.data())
def test_programs_see_a_smaller_job(framework: str, data: st.DataObject) -> None:
    """Whichever tasks are left out, the variables of the others are those of a smaller job, without gaps in any
    count."""
    most = data.draw(st.integers(2, 6))
    absent = data.draw(st.sets(st.integers(0, most - 1), min_size=1, max_size=most - 1))
    spec = job(framework, most, most - len(absent))
    smaller = {**spec.roles, "worker": Role(instances=most - len(absent))}
    addresses = {
        name: tuple(f"10.0.0.{9 * number + i}:5{i:03}" for i in range(role.instances))
        for number, (name, role) in enumerate(smaller.items())
    }
    whole = ClusterSpec(session=1, version=1, roles=addresses)
    assert told(spec, replace(whole, absent={"worker": tuple(sorted(absent))})) == told(
        replace(spec, roles=smaller), whole
    )


@pytest.mark.parametrize(
    ("framework", "role", "why"),
    [
        ("tensorflow", "ps", "each ps keeps a part of the model"),
        ("mxnet", "server", "each server keeps a part of the model"),
    ],
)
def test_roles_that_cannot_be_elastic_are_refused(framework: str, role: str, why: str) -> None:
    """A role with a task that the others need: with the key, the value and the fix."""
    spec = job(framework, 3, 1)
    own = replace(spec.roles[role], instances=3, min_instances=2)
    with pytest.raises(ConfigError) as error:
        load_job(None, overrides=replace(spec, roles={**spec.roles, role: own}), environ={}, site_files=[])
    (problem,) = error.value.problems
    assert (problem.key, problem.value) == (f"roles.{role}.instances.min", "2")
    assert why in problem.message
    assert problem.message.endswith("Write a fixed number: instances = 3.")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"kind": RoleKind.SIDECAR}, "does not wait for sidecars"),
        ({"kind": RoleKind.SETUP}, "the tasks of a setup role start independently"),
        ({"distributed_mode": DistributedMode.FCFS}, 'with distributed_mode = "fcfs" the tasks start independently'),
    ],
    ids=["sidecar", "setup", "fcfs"],
)
def test_where_there_is_no_gang(more: dict[str, Any], said: str) -> None:
    """A task that starts independently needs no complete gang."""
    spec = job("none", 3, 1)
    kind = more.pop("kind", RoleKind.TRACKED)
    roles = {"chief": Role(), "worker": replace(spec.roles["worker"], kind=kind)}
    with pytest.raises(ConfigError) as error:
        load_job(None, overrides=replace(spec, roles=roles, **more), environ={}, site_files=[])
    (problem,) = error.value.problems
    assert problem.key == "roles.worker.instances.min"
    assert said in problem.message


def test_any_worker_may_run_the_rendezvous() -> None:
    """That of Horovod is at the first task that takes part, whichever that is; in a whole gang at its first task."""
    spec = job("horovod", 3, 1)
    assert [Horovod().choose_rendezvous(spec, task) for task in spec.task_ids] == [RendezvousKind.STORE] * 3
    whole = replace(spec, roles={"worker": Role(instances=3)})
    assert [Horovod().choose_rendezvous(whole, task) for task in whole.task_ids] == [RendezvousKind.STORE, None, None]
