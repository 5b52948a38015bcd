"""A job that is submitted is complete; one that is not leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

import tony
from tests.jobs.recording_scheduler import Desk, Office
from tony.client import staging, submission
from tony.client.submission import check, find_unsupported_settings, prepare_submission, render_request, submit
from tony.config.load import Resolved, load
from tony.errors import ConfigError, Problem, SchedulerError, StorageError
from tony.history.job_record import read_job
from tony.model.codec import from_plain
from tony.model.job_spec import JobSpec, Resources, Role
from tony.model.state_directory import Home
from tony.model.submission_record import JobRecord
from tony.protocol.launch import JobCredentials
from tony.schedulers import registry
from tony.schedulers.capabilities import RoleSetting
from tony.schedulers.local.capabilities import CAPABILITIES as LOCAL
from tony.schedulers.yarn.capabilities import CAPABILITIES as YARN


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = Desk()
    monkeypatch.setattr(registry, "load", lambda name: Office(desk))
    return desk


@pytest.fixture
def resolved(tmp_path: Path) -> Resolved:
    """A job with a source and a secret."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print(1)")
    (tmp_path / "job.toml").write_text(
        'name = "digits"\nsource = "src"\ncommand = "python train.py"\nenv = { HF_TOKEN = "hush" }\n'
    )
    return load(tmp_path / "job.toml", environ={}, site_files=())


def folders(home: Home) -> list[str]:
    return os.listdir(home.jobs) if home.jobs.exists() else []


async def test_a_submitted_job_is_complete(home: Home, desk: Desk, resolved: Resolved) -> None:
    """The scheduler finds every file in place, and other commands find the job directory."""
    said: list[str] = []
    job_id = await submit(resolved, home, lambda notice: said.append(str(notice)))
    folder = home.job(job_id)
    assert job_id.startswith("local-")
    assert desk.seen == ["job.json", "logs", "secret", "staged"]
    record = desk.jobs[0].record
    assert (record.job_id, record.spec, record.framework_path) == (job_id, resolved.spec, None)
    assert record.framework_module == "tony.frameworks.no_framework:NoFramework"
    assert (record.tony_version, record.sources["name"]) == (tony.__version__, resolved.sources["name"])
    assert len(record.staged.roles["main"].items) == 1
    assert from_plain(JobRecord, json.loads(folder.secret_job.read_text())) == record
    assert said[0] == "a word before"
    assert said[1].startswith("source: ")


async def test_secrets_are_kept_apart(home: Home, desk: Desk, resolved: Resolved) -> None:
    """The record that stays has none, and what has them is for its owner only."""
    folder = home.job(await submit(resolved, home, print))
    record = read_job(folder)
    assert record is not None
    assert record.spec.env == {"HF_TOKEN": "***"}
    assert "hush" not in folder.job.read_text()
    assert [path.stat().st_mode & 0o777 for path in (folder.path, folder.secret, folder.logs)] == [0o700] * 3
    assert [path.stat().st_mode & 0o777 for path in (folder.secret_job, folder.credentials)] == [0o600] * 2
    credentials = from_plain(JobCredentials, json.loads(folder.credentials.read_text()))
    assert len(credentials.am.token) == 64
    assert credentials.am.certificate is None


async def test_certificates_on_one_machine_if_requested(home: Home, desk: Desk) -> None:
    """`tls = "always"` holds on one machine, too."""
    resolved = load(overrides={"command": "true", "tls": "always"}, environ={}, site_files=())
    folder = home.job(await submit(resolved, home, print))
    credentials = from_plain(JobCredentials, json.loads(folder.credentials.read_text()))
    assert credentials.executors.certificate is not None


async def test_an_unsatisfiable_job_is_refused(home: Home, desk: Desk, resolved: Resolved) -> None:
    """Before anything is made; the problem says where the value was set."""
    desk.problems = [Problem(key="name", message="no.")]
    with pytest.raises(ConfigError, match=r"name \(.*job\.toml:1\): no\."):
        await submit(resolved, home, print)
    assert folders(home) == []


async def test_a_refusal_leaves_nothing_behind(home: Home, desk: Desk, resolved: Resolved) -> None:
    """The error is the scheduler's."""
    desk.error = SchedulerError("closed today")
    with pytest.raises(SchedulerError, match="closed today"):
        await submit(resolved, home, print)
    assert len(desk.jobs) == 1
    assert folders(home) == []


async def test_files_that_cannot_be_staged_leave_nothing_behind(home: Home, desk: Desk, resolved: Resolved) -> None:
    shutil.rmtree(str(resolved.spec.source))
    with pytest.raises(ConfigError, match="source"):
        await submit(resolved, home, print)
    assert folders(home) == []


async def test_two_jobs_that_draw_the_same_id(
    home: Home, desk: Desk, resolved: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later one draws again, and neither gets into the other's folder."""
    drawn = iter(["local-20260131-000000-aaaaaa"] * 3 + ["local-20260131-000000-bbbbbb"])
    monkeypatch.setattr(submission, "create_job_id", lambda scheduler, now: next(drawn))
    first = await submit(resolved, home, print)
    assert await submit(resolved, home, print) == "local-20260131-000000-bbbbbb"
    assert sorted(folders(home)) == [first, "local-20260131-000000-bbbbbb"]
    monkeypatch.setattr(submission, "create_job_id", lambda scheduler, now: first)
    with pytest.raises(StorageError, match="100 ids in a row are in use"):
        await submit(resolved, home, print)
    assert read_job(home.job(first)) is not None


async def test_a_folder_that_cannot_be_filled_is_removed(
    home: Home, desk: Desk, resolved: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there was room for the job's folder and for nothing in it."""
    mkdir = Path.mkdir

    def no_room(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if path.name == "secret":
            raise OSError(28, "No space left on device")
        mkdir(path, mode, parents, exist_ok)

    monkeypatch.setattr(Path, "mkdir", no_room)
    with pytest.raises(StorageError, match=r"cannot make .*/secret: not enough disk space in .*: more space needed"):
        await submit(resolved, home, print)
    assert folders(home) == []


async def test_a_home_that_cannot_be_made(home: Home, desk: Desk, resolved: Resolved) -> None:
    """It is said, and nothing is passed."""
    (home.path / "file").touch()
    with pytest.raises(StorageError, match="Set TONY_HOME"):
        await submit(resolved, Home(home.path / "file"), print)
    assert desk.jobs == []


async def test_an_interrupted_submission_leaves_nothing_behind(
    home: Home, desk: Desk, resolved: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Staging is in a thread, which cannot be stopped: what it made is removed when it is done."""
    begun, go_on = threading.Event(), threading.Event()
    real = staging.stage

    def slow(*given: object, **more: object) -> object:
        begun.set()
        assert go_on.wait(20)
        return real(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(staging, "stage", slow)
    submitting = asyncio.ensure_future(submit(resolved, home, print))
    await asyncio.to_thread(begun.wait, 20)
    submitting.cancel()
    await asyncio.sleep(0)
    assert len(folders(home)) == 1
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await submitting
    assert folders(home) == []
    assert desk.jobs == []


def test_an_interrupt_while_preparing_leaves_nothing_behind(home: Home, desk: Desk, resolved: Resolved) -> None:
    """Ctrl-C may come at any moment."""
    with pytest.raises(KeyboardInterrupt), prepare_submission(resolved, home, print):
        raise KeyboardInterrupt
    assert folders(home) == []


def test_an_interrupt_after_handing_over_leaves_the_job_alone(home: Home, desk: Desk, resolved: Resolved) -> None:
    """It runs already: its record must not go."""

    def submit_and_interrupt() -> None:
        with prepare_submission(resolved, home, print) as ready:
            asyncio.run(ready.submit())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submit_and_interrupt()
    assert read_job(desk.jobs[0].folder) is not None


def test_a_prepared_job_is_not_listed_yet(home: Home, desk: Desk, resolved: Resolved) -> None:
    """`job.json` is written last, so that incomplete jobs are never listed."""
    with prepare_submission(resolved, home, print) as ready:
        assert read_job(ready.job.folder) is None
        assert asyncio.run(ready.submit()) == ready.job.folder.job_id
    assert read_job(ready.job.folder) is not None


def test_a_dry_run_makes_nothing(home: Home, desk: Desk, resolved: Resolved) -> None:
    """It shows what would be sent, without secrets."""
    assert render_request(resolved, home) == {"name": "digits", "env": {"HF_TOKEN": "***"}}
    assert os.listdir(home.path) == []


def test_a_check_makes_the_checks_of_a_submission(home: Home, desk: Desk, resolved: Resolved) -> None:
    assert check(resolved, home) is desk
    desk.problems = [Problem(key="roles.main.memory", message="too much.")]
    os.symlink("/etc", Path(str(resolved.spec.source), "out"))
    with pytest.raises(ConfigError) as caught:
        check(resolved, home)
    assert [problem.key for problem in caught.value.problems] == ["roles.main.memory", "source"]
    assert os.listdir(home.path) == []


def test_a_check_without_its_cluster_keeps_its_problems(
    home: Home, desk: Desk, resolved: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files in HDFS cannot be looked up where the settings of the cluster are wrong."""
    there = replace(resolved, spec=replace(resolved.spec, files=("hdfs://nn/x",)))
    monkeypatch.setattr(desk, "remote_files", Mock(side_effect=SchedulerError("no cluster is configured")))
    with pytest.raises(SchedulerError):
        check(there, home)
    desk.problems = [Problem(key="scheduler.yarn.conf", message="no such folder.")]
    with pytest.raises(ConfigError) as caught:
        check(there, home)
    assert [problem.key for problem in caught.value.problems] == ["scheduler.yarn.conf"]


IMAGES = """
command = "true"
[scheduler]
name = "local"
yarn.docker_image = "team/base:1"
[roles.worker]
image = "team/train:2"
"""


def test_an_image_is_refused_where_none_can_be_had(home: Home, tmp_path: Path) -> None:
    """Whichever setting asks for it: the program would run without it, and nothing would say so."""
    (tmp_path / "job.toml").write_text(IMAGES)
    with pytest.raises(ConfigError) as caught:
        check(load("job.toml", environ={}, cwd=tmp_path, site_files=()), home)
    said = (
        "the scheduler local does not support container images. Submit with --scheduler yarn or kubernetes, or leave "
    )
    said += "the image out: for one run with --set "
    assert [str(problem) for problem in caught.value.problems] == [
        f'scheduler.yarn.docker_image = "team/base:1" (job.toml:5): {said}scheduler.yarn.docker_image=',
        f'roles.worker.image = "team/train:2" (job.toml:7): {said}roles.worker.image=',
    ]
    sets = ["roles.worker.image=", "scheduler.yarn.docker_image="]
    check(load("job.toml", environ={}, cwd=tmp_path, site_files=(), sets=sets), home)


def test_a_variable_called_image_is_no_container_image(home: Home, tmp_path: Path) -> None:
    job = '[roles.worker]\ncommand = "true"\nenv = { image = "a", docker_image = "b" }\nexports = { image = "at: " }\n'
    (tmp_path / "job.toml").write_text(job)
    resolved = load("job.toml", environ={}, cwd=tmp_path, site_files=())
    assert resolved.images == {}
    check(resolved, home)


def test_an_image_of_a_site_is_for_the_jobs_of_its_cluster(home: Home, tmp_path: Path) -> None:
    """It refuses no local job; and where there are images, a job's own is not refused."""
    site = tmp_path / "site.toml"
    site.write_text('[scheduler.yarn]\ndocker_image = "team/base:1"\n')
    (tmp_path / "job.toml").write_text('command = "true"\n')
    resolved = load("job.toml", environ={}, cwd=tmp_path, site_files=[site])
    assert resolved.images == {}
    check(resolved, home)
    assert RoleSetting.IMAGE in registry.load("yarn").create_submitter(home).capabilities.honours


def test_a_plug_in_is_found_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors have no site-packages: they are told where to look."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "__init__.py").touch()
    (tmp_path / "two.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert submission._find_plug_in_folder("one.adapter:Thing") == str(tmp_path)
    assert submission._find_plug_in_folder("two:Thing") == str(tmp_path)
    assert submission._find_plug_in_folder("tony.frameworks.jax:Jax") is None


WORKER = Role(
    instances=2, resources=Resources(others={"yarn.io/gpu": 1, "yarn.io/fpga": 1}), node_label="gpu", spread=True
)


def test_a_job_without_such_settings() -> None:
    """Most jobs hear nothing; a single task is always alone on its host."""
    assert find_unsupported_settings(JobSpec(command="true"), LOCAL) == []
    alone = JobSpec(roles={"worker": Role(instances=1, spread=True, resources=Resources(gpus=1))})
    assert find_unsupported_settings(alone, LOCAL) == []


def test_every_setting_that_has_no_effect() -> None:
    """A sentence each; what can be had otherwise is named."""
    nothing = "has no effect on the local scheduler"
    spec = JobSpec(roles={"worker": WORKER, "ps": Role(node_label="gpu")})
    assert find_unsupported_settings(spec, LOCAL) == [
        f"roles.worker.resources.yarn.io/fpga {nothing}",
        f"roles.worker.resources.yarn.io/gpu {nothing}; request GPUs with `gpus`",
        f"roles.worker.node_label {nothing}",
        f"roles.worker.spread {nothing}",
        f"roles.ps.node_label {nothing}",
    ]


def test_a_scheduler_that_follows_them() -> None:
    """YARN follows all; another one may follow some."""
    assert find_unsupported_settings(JobSpec(roles={"worker": WORKER}), YARN) == []
    assert RoleSetting.IMAGE in YARN.honours


async def test_the_job_file_is_recorded_unless_options_were_given_with_it(
    home: Home, desk: Desk, resolved: Resolved, tmp_path: Path
) -> None:
    """Submitting that file again would leave out the options."""
    job_file = tmp_path / "job.toml"
    with_option = load(job_file, sets=["name=other"], environ={}, site_files=())
    records = [read_job(home.job(await submit(each, home, lambda notice: None))) for each in (resolved, with_option)]
    assert [record and record.job_file for record in records] == [str(job_file), ""]
