"""The AM in a YARN container: reads its launch payload, creates the job's folder, and continues as on any scheduler."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from tony.am.main import run
from tony.errors import TonyError
from tony.history.json_files import write_json
from tony.linux.process import set_not_dumpable
from tony.model.codec import to_plain
from tony.model.layout import Home, JobFolder
from tony.schedulers.yarn.allocation.allocator import YarnAllocator
from tony.schedulers.yarn.current_container import ContainerEnv
from tony.schedulers.yarn.launch_payload import JOB, JobPayload


def main() -> int:
    """Run one AM attempt and return the exit code of the process. Errors are printed where YARN shows them."""
    set_not_dumpable()
    try:
        payload, container = ContainerEnv.from_environ(os.environ).take_payload(JOB, JobPayload)
        payload = in_cluster_time(payload, container)
        folder = Home(container.folder / "tony-home").job(payload.record.job_id)
        _create_job_folder(folder, payload, container)
    except TonyError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    sys.argv[1:] = [str(folder.path)]
    return run(lambda job: YarnAllocator(job, payload, container))


def in_cluster_time(payload: JobPayload, container: ContainerEnv) -> JobPayload:
    """Set the submission time to the cluster's: the submitter's clock may be wrong."""
    if container.submitted is None:
        return payload
    return replace(payload, record=replace(payload.record, submitted=container.submitted))


def _create_job_folder(folder: JobFolder, payload: JobPayload, container: ContainerEnv) -> None:
    for path in (folder.path, folder.logs, folder.secret):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(folder.credentials, to_plain(payload.credentials))
    record = replace(payload.record, framework_path=container.plug_in(payload.record.framework_path))
    write_json(folder.secret_job, to_plain(record))
