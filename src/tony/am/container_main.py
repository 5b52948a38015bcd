"""The AM in a container on any scheduler: `container_main MODULE:CLASS [FOLDER...]` names its `AmContainer`.

It creates the job's folder, and continues as the AM of a job directory on this machine.
"""

from __future__ import annotations

import sys

from tony.am.main import run
from tony.errors import TonyError
from tony.history.json_files import write_json
from tony.linux.process import set_not_dumpable
from tony.model.codec import to_plain
from tony.schedulers.container_interface import AmContainer, JobLaunch, load_container


def main() -> int:
    """Run one AM attempt and return the exit code of the process. Errors are printed where the scheduler shows them."""
    set_not_dumpable()
    try:
        container = load_container(AmContainer, sys.argv[1:])  # type: ignore[type-abstract]
        launch = container.take_job()
        _create_job_folder(launch)
    except TonyError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    sys.argv[1:] = [str(launch.folder.path)]
    return run(container.create_allocator)


def _create_job_folder(launch: JobLaunch) -> None:
    folder = launch.folder
    for path in (folder.path, folder.logs, folder.secret):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(folder.credentials, to_plain(launch.credentials))
    write_json(folder.secret_job, to_plain(launch.record))
