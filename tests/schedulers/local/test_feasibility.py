"""Jobs that can never fit are refused with the arithmetic."""

from dataclasses import replace

from tests.facts import mentions
from tony.model.job_spec import GIB, JobSpec, Resources, Role
from tony.model.setting_choices import AfterCondition
from tony.schedulers.local.claims.machine_capacity import Machine
from tony.schedulers.local.feasibility import find_unsatisfiable_requests

MACHINE = Machine(
    memory=int(21.6 * GIB), gpus=("0",), memory_origin="90% of this machine's 24g", gpus_origin="NVIDIA devices found"
)


def role(instances: int, memory: int, gpus: int = 0, after: str | None = None) -> Role:
    order = {after: AfterCondition.SUCCEEDED} if after else {}
    return Role(instances=instances, resources=Resources(memory=memory, gpus=gpus), after=order)


def job(**roles: Role) -> JobSpec:
    return JobSpec(roles=roles, command="true")


def test_fits() -> None:
    assert find_unsatisfiable_requests(job(worker=role(2, 10 * GIB, 0), ps=role(1, GIB, 1)), MACHINE) == []


def test_one_task_too_large() -> None:
    """Each role whose single task is too large is named."""
    (problem,) = find_unsatisfiable_requests(job(worker=role(4, 64 * GIB), ps=role(1, GIB)), MACHINE)
    assert (problem.key, problem.value) == ("roles.worker.memory", "64g")
    assert mentions(problem.message, "21.6g", "90%", "24g")


def test_together_too_large() -> None:
    """The sum is shown, task by task."""
    (problem,) = find_unsatisfiable_requests(job(worker=role(4, 16 * GIB), ps=role(2, 3 * GIB)), MACHINE)
    assert problem.key == "roles"
    assert mentions(problem.message, "worker: 4 x 16g + ps: 2 x 3g = 70g", "21.6g", "90%", "24g")


def test_one_after_the_other_fits() -> None:
    """What is never there at one time is not added up, unless a restart may need it again."""
    roles = {"train": role(2, 10 * GIB), "export": role(1, 20 * GIB, after="train")}
    assert find_unsatisfiable_requests(job(**roles), MACHINE) == []
    assert [problem.key for problem in find_unsatisfiable_requests(replace(job(**roles), max_restarts=1), MACHINE)] == [
        "roles"
    ]


def test_gpus() -> None:
    """GPUs are counted the same way, and how to pretend some is said."""
    (problem,) = find_unsatisfiable_requests(job(worker=role(4, GIB, 2)), MACHINE)
    assert (problem.key, problem.value) == ("roles.worker.gpus", "2 GPUs")
    assert mentions(problem.message, "1 GPU", "NVIDIA", "scheduler.local.gpus")
    (problem,) = find_unsatisfiable_requests(job(worker=role(4, GIB, 1)), MACHINE)
    assert problem.key == "roles.worker.gpus"
    assert problem.message.startswith(
        "the job requests worker: 4 x 1 GPU = 4 GPUs at the same time; this machine has 1"
    )


def test_a_machine_without_gpus() -> None:
    """The message does not count to 0; only a setting may hide real ones."""
    (problem,) = find_unsatisfiable_requests(job(worker=role(1, GIB, 1)), replace(MACHINE, gpus=(), gpus_origin=""))
    assert problem.message.startswith("this machine has no NVIDIA GPU. Request none, or simulate some")
    hidden = replace(MACHINE, gpus=(), gpus_origin="set by scheduler.local.gpus")
    (problem,) = find_unsatisfiable_requests(job(worker=role(1, GIB, 1)), hidden)
    assert "at most 0 GPUs (set by scheduler.local.gpus)" in problem.message


def test_no_instances_no_misfit() -> None:
    """A role of no tasks wants nothing."""
    assert find_unsatisfiable_requests(job(worker=role(0, 64 * GIB), ps=role(1, GIB)), MACHINE) == []


def test_too_few_ports() -> None:
    """All tasks of a role are on this machine, so its range must have a port for each, and one for TensorBoard."""
    spec = replace(job(worker=role(4, GIB), ps=role(1, GIB)), port_range=(45000, 45003))
    (problem,) = find_unsatisfiable_requests(spec, MACHINE)
    assert (problem.key, problem.value) == ("port_range", "45000-45003")
    assert mentions(problem.message, "5 ports", "worker", "TensorBoard")
    assert find_unsatisfiable_requests(replace(spec, port_range=(45000, 45004)), MACHINE) == []


def test_an_elastic_role_is_checked_with_its_minimum() -> None:
    """A job that does not fit with all tasks may fit with fewer; ports are needed for the maximum."""
    most = replace(role(1000, GIB), min_instances=2)
    assert find_unsatisfiable_requests(job(worker=most), MACHINE) == []
    (problem,) = find_unsatisfiable_requests(job(worker=replace(most, min_instances=900)), MACHINE)
    assert "worker: 900 x 1g = 900g" in problem.message
    (problem,) = find_unsatisfiable_requests(
        replace(job(worker=replace(most, instances=3)), port_range=(45000, 45004)), MACHINE
    )
    assert mentions(problem.message, "6 ports", "worker", "TensorBoard")
