"""The client's half of the local scheduler."""

import asyncio
import fcntl
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tony.linux import process
from tony.model.job_spec import GIB, JobSpec, Resources, Role
from tony.model.staged_files import StagedJob
from tony.model.state_directory import Home
from tony.model.submission_record import RECORD_VERSION, JobRecord
from tony.schedulers import registry
from tony.schedulers.client_interface import PreparedJob, Submitter
from tony.schedulers.local.claims.ledger import ResourceLedger, create_claim, find_own_ledger
from tony.testing.sample_jobs import build_prepared_job, build_two_roles

GOLDEN = Path(__file__).parents[2] / "golden" / "schedulers" / "local.json"


@pytest.fixture
def submitter(tmp_path: Path) -> Submitter:
    return registry.load("local").create_submitter(Home(tmp_path))


def with_settings(**settings: str | int) -> JobSpec:
    return replace(build_two_roles(), scheduler_settings=settings)


def test_good_job(submitter: Submitter, tmp_path: Path) -> None:
    """A job that fits has no problems, and checking it makes nothing."""
    assert submitter.check(with_settings(ledger=str(tmp_path / "ledger"), gpus=0)) == []
    assert os.listdir(tmp_path) == []


def test_all_that_is_wrong_at_once(submitter: Submitter, tmp_path: Path) -> None:
    """Settings, the place of the ledger, memory and GPUs are told together."""
    (tmp_path / "file").write_text("")
    roles = {"worker": Role(instances=2, resources=Resources(memory=3 * GIB, gpus=1))}
    settings: dict[str, str | int | float | bool] = {"memory": "2g", "gpus": 1, "colour": "red"}
    settings["ledger"] = str(tmp_path / "file")
    problems = submitter.check(JobSpec(roles=roles, command="true", scheduler_settings=settings))
    assert [(problem.key, problem.value) for problem in problems] == [
        ("scheduler.local.colour", "red"),
        ("scheduler.local.ledger", str(tmp_path / "file")),
        ("roles.worker.memory", "3g"),
        ("roles.worker.gpus", None),
    ]


def test_notice_of_an_own_ledger(submitter: Submitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whose jobs do not see those of others is told when submitting."""
    assert not submitter.notices(build_two_roles())
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("tony.schedulers.local.submitter.DEFAULT_LEDGER", tmp_path / "file")
    (notice,) = submitter.notices(build_two_roles())
    assert notice.startswith(f"the machine's ledger {tmp_path}/file cannot be used (it is not a folder), so ")
    assert str(find_own_ledger(Home(tmp_path))) in notice
    assert not submitter.notices(with_settings(ledger="/elsewhere"))


def test_rendered_request(submitter: Submitter) -> None:
    """The user's commands, what they get, and the names of variables and never their values."""
    spec = replace(
        build_two_roles(max_restarts=1), env={"PASSWORD": "secret"}, scheduler_settings={"ledger": "/ledger"}
    )
    text = json.dumps(submitter.render(unmade(spec)), indent=2) + "\n"
    assert "secret" not in text
    assert text == GOLDEN.read_text()


def unmade(spec: JobSpec) -> PreparedJob:
    """Rendering is pure: the job's folder need not exist."""
    home = Home(Path("/home/ann/.tony"))
    record = JobRecord(
        version=RECORD_VERSION,
        job_id="local-1",
        user="ann",
        host="here",
        submitted=0.0,
        tony_version="0",
        spec=spec,
        staged=StagedJob(),
        framework_module="tony.frameworks.no_framework:NoFramework",
    )
    return PreparedJob(home=home, folder=home.job("local-1"), record=record)


def test_is_the_master_alive(submitter: Submitter, tmp_path: Path) -> None:
    """It is as long as it holds its lock."""
    folder = build_prepared_job(tmp_path, build_two_roles()).folder
    assert submitter.am_alive(folder) is False
    lock = os.open(folder.am_lock, os.O_RDWR | os.O_CREAT)
    assert submitter.am_alive(folder) is False
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert submitter.am_alive(folder) is True
    os.close(lock)
    assert submitter.am_alive(folder) is False


def test_sweep(submitter: Submitter, tmp_path: Path) -> None:
    """What a dead master left is ended, once or twice, and its list of control groups is removed."""
    folder = build_prepared_job(tmp_path, build_two_roles()).folder
    program = subprocess.Popen(["sleep", "600"], env={"TONY_TASK": f"{folder.job_id}/c-1/nonce", **os.environ})
    folder.remains.write_text("group /sys/fs/cgroup/memory/gone\nexecutor 1 0\n")
    asyncio.run(submitter.sweep(folder))
    asyncio.run(submitter.sweep(folder))
    assert not process.is_alive(program.pid)
    assert not folder.remains.exists()
    program.wait()


def test_sweep_tidies_the_ledger(submitter: Submitter, tmp_path: Path) -> None:
    """The claim of a dead master is removed; those of the living stay, and a busy or missing ledger is left alone."""
    place = tmp_path / "ledger"
    place.mkdir()
    folder = build_prepared_job(tmp_path, build_two_roles()).folder
    folder.job.write_text(json.dumps({"spec": {"scheduler_settings": {"ledger": str(place)}}}))
    ledger = ResourceLedger(place)
    with ledger.lock():
        living, dead = [ledger.post(create_claim(job="j", job_name="n", memory=1, gpus=0)) for _ in range(2)]
        os.close(dead.descriptor)
        asyncio.run(submitter.sweep(folder))
        assert len(os.listdir(place)) == 2
    asyncio.run(submitter.sweep(folder))
    assert os.listdir(place) == [living.path.name]
    living.withdraw()
    ledger.close()


def test_capabilities(submitter: Submitter) -> None:
    """Both halves say the same of what the scheduler can do."""
    source = registry.load("local").create_allocator(unmade(build_two_roles()))
    assert source.capabilities == submitter.capabilities


def test_interpreter_that_is_not_there(submitter: Submitter, tmp_path: Path) -> None:
    """A name that is not on PATH is refused before anything starts; once, however many roles take it."""
    spec = replace(with_settings(ledger=str(tmp_path / "ledger"), gpus=0), python="python9.9")
    (problem,) = submitter.check(spec)
    assert (problem.key, problem.value) == ("python", "python9.9")
    assert submitter.check(replace(spec, python="python3")) == []
