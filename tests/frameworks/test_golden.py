"""Every adapter's output for whole jobs, letter by letter, in tests/golden/frameworks/.

A golden file holds its own input: a job and the addresses of its tasks. After a change on purpose,
`python tests/frameworks/test_golden.py` writes the outputs again; the difference is then read in the commit.
"""

import json
from pathlib import Path

import pytest

from tony.executor.program.program_environment import build_common_environment
from tony.frameworks.framework_interface import TaskView
from tony.frameworks.registry import home_of, load, names
from tony.model.codec import Json, from_plain
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec, place_among

GOLDEN = Path(__file__).parents[1] / "golden" / "frameworks"


def outputs(case: Json) -> Json:
    """What the application master shares, and what each process of each task then gets."""
    spec = from_plain(JobSpec, case["job"])
    cluster = from_plain(ClusterSpec, case["cluster"])
    framework = load(home_of(spec.framework))
    job = spec.leave_out(cluster.absent)
    shared = json.loads(json.dumps(framework.build_shared(job, cluster)))
    environments = {}
    for task in spec.task_ids:
        absent = cluster.absent.get(task.role, ())
        if task.role in cluster.roles and task.index not in absent:
            seen = TaskId(task.role, place_among(task.index, absent))
            view = TaskView(
                job_id="job-1",
                task=seen,
                session=cluster.session,
                attempt=1,
                try_=1,
                instances={name: role.instances for name, role in job.effective_roles.items()},
                procs={name: role.procs_per_task for name, role in spec.effective_roles.items()},
                chief=spec.chief,
                num_tasks=job.tracked_count,
                mode=spec.distributed_mode,
                address=cluster.roles[seen.role][seen.index],
                tb_port=6006 if seen == spec.tensorboard_task else None,
            )
            own = framework.environment(shared, view)
            environments[str(task)] = [{**build_common_environment(view), **variables} for variables in own]
    return {"shared": shared, "environments": environments}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_output_is_as_written_down(path: Path) -> None:
    """It detects the change of one letter in any task's environment."""
    case = json.loads(path.read_text(encoding="utf-8"))
    assert outputs(case) == {"shared": case["shared"], "environments": case["environments"]}


def test_every_adapter_has_a_golden_file() -> None:
    frameworks = {json.loads(path.read_text(encoding="utf-8"))["job"]["framework"] for path in GOLDEN.glob("*.json")}
    assert frameworks == set(names())


if __name__ == "__main__":
    for golden in sorted(GOLDEN.glob("*.json")):
        given = json.loads(golden.read_text(encoding="utf-8"))
        inputs = {key: given[key] for key in ("about", "job", "cluster")}
        golden.write_text(json.dumps({**inputs, **outputs(given)}, indent=2) + "\n", encoding="utf-8")
