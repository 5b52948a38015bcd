"""The application master in a container of YARN: finds its papers, makes the job's folder, and goes on as any other."""

from __future__ import annotations

import os
import sys

from tony.am.main import run
from tony.dataclass import replace
from tony.errors import TonyError
from tony.history.json_files import write_json
from tony.linux.process import set_not_dumpable
from tony.model.codec import to_plain
from tony.model.layout import Home, JobFolder
from tony.schedulers.yarn.allocator import YarnSource
from tony.schedulers.yarn.container_env import ContainerEnv
from tony.schedulers.yarn.launch_payload import JOB, JobPayload


def main() -> int:
    """Runs one attempt; answers the exit code of the process. What fails is said where YARN shows it."""
    set_not_dumpable()
    try:
        papers, inside = ContainerEnv.look(os.environ).take(JOB, JobPayload)
        papers = in_cluster_time(papers, inside)
        folder = Home(inside.folder / "tony-home").job(papers.record.job_id)
        _furnish(folder, papers, inside)
    except TonyError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    sys.argv[1:] = [str(folder.path)]
    return run(lambda job: YarnSource(job, papers, inside))


def in_cluster_time(papers: JobPayload, inside: ContainerEnv) -> JobPayload:
    """The job's time counts from its acceptance: as the cluster saw that, for the submitter's clock may be wrong."""
    if inside.submitted is None:
        return papers
    return replace(papers, record=replace(papers.record, submitted=inside.submitted))


def _furnish(folder: JobFolder, papers: JobPayload, inside: ContainerEnv) -> None:
    for path in (folder.path, folder.logs, folder.secret):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(folder.credentials, to_plain(papers.credentials))
    record = replace(papers.record, framework_path=inside.plug_in(papers.record.framework_path))
    write_json(folder.secret_job, to_plain(record))
