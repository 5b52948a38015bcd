"""The application master makes room for its executors' connections, or says why it cannot."""

from __future__ import annotations

import json
import resource
import subprocess
from pathlib import Path

import pytest

from tests.core.specs import workers
from tony.isolated_interpreter import command
from tony.linux.resource_limits import allow_open_files
from tony.model.codec import to_plain
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import AfterCondition
from tony.model.state_directory import JobFolder
from tony.testing.sample_jobs import build_prepared_job

#: Runs `allow_connections` under limits of its own, and says what became of them.
_CODE = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[3]), int(sys.argv[4])))
from tony.am.open_file_limit import allow_connections
from tony.errors import InfraError
from tony.model.codec import from_plain
from tony.model.job_spec import JobSpec
try:
    allow_connections(from_plain(JobSpec, json.loads(sys.argv[2])))
except InfraError as error:
    print(error)
else:
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def under(soft: int, hard: int, spec: JobSpec) -> str:
    """The limit in the end, or the refusal."""
    argv = command("unused")
    argv[argv.index("-c") + 1] = _CODE
    argv += [json.dumps(to_plain(spec)), str(soft), str(hard)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def test_the_limit_is_raised_only_as_far_as_needed() -> None:
    """Children inherit it: a job that needs no more leaves it unchanged."""
    assert under(128, 4096, workers(1000)) == "1240"
    assert under(1024, 4096, workers(10)) == "1024"
    assert under(128, 1100, workers(1000)) == "1100"


def test_too_low_a_hard_limit_is_refused_with_the_arithmetic() -> None:
    """A gang that can never be complete is not started."""
    said = under(128, 1024, workers(1000))
    assert said.startswith(
        "1000 tasks start together, and each keeps a connection to the application master: that needs 1040 open files, "
    )
    assert said.endswith("may open 1024 (RLIMIT_NOFILE, ulimit -Hn). Raise the limit, or request fewer tasks.")


def test_only_those_that_start_together_must_fit() -> None:
    """Stages of a job come one after the other: their executors need not be there at one time."""
    stages = {
        "first": Role(instances=600),
        "second": Role(instances=600, after={"first": AfterCondition.SUCCEEDED}),
    }
    assert under(128, 1024, JobSpec(command="true", roles=stages)) == "1024"


def test_a_job_refused_for_open_files_exits_with_3(tmp_path: Path) -> None:
    """The reason is in the summary; it is not reported as a bug."""
    job = build_prepared_job(tmp_path, workers(1000), job_id="test-1")
    job.folder.secret_job.write_text(json.dumps(to_plain(job.record)))
    subprocess.run(
        command("tony.am.main", str(job.folder.path)),
        check=True,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 1024)),
    )
    summary = json.loads(JobFolder(job.folder.path).summary.read_text())
    assert (summary["exit_code"], summary["failure"]["failure_class"]) == (3, "infrastructure")
    assert "that needs 1040 open files" in summary["failure"]["reason"]


@pytest.mark.parametrize("wanted", [1, 64])
def test_a_limit_is_never_lowered(wanted: int) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert allow_open_files(wanted) >= before[0]
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
