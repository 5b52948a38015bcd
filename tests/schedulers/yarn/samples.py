"""A job for YARN with something of everything, and its payload."""

from pathlib import Path
from typing import Any

from tony.model.job_spec import MIB, JobSpec, Resources, Role
from tony.model.staged_files import Placement, StagedItem, StagedJob, StagedRole
from tony.model.state_directory import Home
from tony.model.submission_record import RECORD_VERSION, JobRecord
from tony.protocol.launch import AmCredentials, JobCredentials
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.yarn.launch_payload import INTERPRETER, PLUG_IN, RUNTIME, JobPayload, Uploaded

SOURCE = StagedItem(digest="a" * 64, size=1234, name="src", placement=Placement.ROOT, suffix=".tar")
DATA = StagedItem(digest="b" * 64, size=99, name="data.csv", placement=Placement.FILE)


def yarn_role(
    placement: str | None = None, placement_tags: tuple[str, ...] = (), mounts: str | None = None, **fields: Any
) -> Role:
    own = {"placement": placement, "placement_tags": placement_tags, "mounts": mounts}
    return Role(scheduler_settings={"yarn": {name: value for name, value in own.items() if value}}, **fields)


def record(settings: dict[str, str | int | float | bool] | None = None, **fields: object) -> JobRecord:
    """A chief without anything special, and two workers with everything that a role can ask for."""
    worker = yarn_role(
        instances=2,
        resources=Resources(memory=1000 * MIB + 1, vcores=3, gpus=1, others={"yarn.io/fpga": 2}),
        node_label="gpu",
        image="registry/train:1",
        mounts="/scratch:/scratch:rw",
        spread=True,
        placement="notin,rack,chief",
        placement_tags=("big",),
        env={"SECRET": "hunter2"},
    )
    spec = JobSpec(
        name="mnist",
        command="python train.py",
        roles={"chief": Role(), "worker": worker},
        scheduler="yarn",
        scheduler_settings=settings or {},
    )
    made: dict[str, object] = {
        "version": RECORD_VERSION,
        "job_id": "application_1700000000000_0007",
        "user": "ann",
        "host": "desk",
        "submitted": 1_700_000_000.0,
        "tony_version": "1",
        "spec": spec,
        "staged": StagedJob(
            roles={"chief": StagedRole(items=(SOURCE,)), "worker": StagedRole(items=(SOURCE, DATA, SOURCE))}
        ),
        "framework_module": "tony.frameworks.no_framework:NoFramework",
    }
    return JobRecord(**{**made, **fields})  # type: ignore[arg-type]


def prepared(job: JobRecord) -> PreparedJob:
    home = Home(Path("/home/ann/.tony"))
    return PreparedJob(home=home, folder=home.job(job.job_id), record=job)


def uploaded(name: str, *, public: bool = False) -> Uploaded:
    return Uploaded(
        url=f"hdfs://nn:8020/user/ann/.tony/cache/{name}", size=len(name), timestamp=1_700_000_000_123, public=public
    )


def payload(job: JobRecord | None = None) -> JobPayload:
    return JobPayload(
        record=job or record(),
        credentials=JobCredentials(
            am=AmCredentials(token="0" * 64, ca="CA", certificate="am", key="am's key"),
            executors=AmCredentials(token="0" * 64, ca="CA", certificate="ex", key="executors' key"),
        ),
        archives={
            RUNTIME: uploaded("runtime.zip", public=True),
            INTERPRETER: uploaded("python.tar.gz"),
            PLUG_IN: uploaded("plug-in.zip"),
        },
        objects={item.digest: uploaded(item.digest) for item in (SOURCE, DATA)},
        configuration={"fs.defaultFS": "hdfs://nn:8020"},
        folder="/user/ann/.tony/jobs/application_1700000000000_0007",
        user="ann",
        nodes={"node-1": "/rack"},
    )
