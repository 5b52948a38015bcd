"""A job submitted again is the same job, with the same files, or an error that says what is no longer there."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from tests.config.specs import jobs
from tests.facts import mentions
from tests.jobs.recording_scheduler import Desk, Office
from tony.client.rerun import Rerun, build_rerun
from tony.client.submission import prepare_submission, render_request, submit
from tony.config.files.call_settings import from_spec
from tony.config.load import load
from tony.errors import ConfigError, UserError
from tony.model.job_spec import JobSpec
from tony.model.state_directory import Home
from tony.schedulers import registry

JOB = 'name = "digits"\nsource = "src"\ncommand = "python train.py {params.lr}"\nparams = { lr = "1" }\n'
SECRET = 'env = { HF_TOKEN = "hush-hush", MODE = "fast" }\n'


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = Desk()
    monkeypatch.setattr(registry, "load", lambda name: Office(desk))
    return desk


async def first(home: Home, folder: Path, text: str = JOB) -> str:
    """Submits a job with a source, and forgets its secrets as its end would."""
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_text("print(1)")
    (folder / "job.toml").write_text(text)
    job_id = await submit(load(folder / "job.toml", environ={}, site_files=()), home, print)
    shutil.rmtree(home.job(job_id).secret)
    return job_id


def staged_again(home: Home, rerun: Rerun) -> None:
    with prepare_submission(rerun.resolved, home, print, rerun.staged_copy) as ready:
        folder = ready.job.folder
        assert {path.name for path in folder.staged.iterdir()} == {
            item.digest for role in ready.job.record.staged.roles.values() for item in role.items
        }


async def test_it_goes_to_the_cluster_that_is_current_now(
    home: Home, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first submission has recorded about its own is not a setting of the job."""
    monkeypatch.setattr(desk, "pin_cluster", lambda spec: replace(spec, scheduler_settings={"context": "c"}))
    job_id = await first(home, tmp_path)
    assert desk.jobs[0].record.spec.scheduler_settings == {"context": "c"}
    assert build_rerun(home, job_id).resolved.spec.scheduler_settings == {}


async def test_the_same_settings_and_files(home: Home, desk: Desk, tmp_path: Path) -> None:
    """Also where the source, the job file and the cache have changed since."""
    job_id = await first(home, tmp_path)
    record = desk.jobs[0].record
    shutil.rmtree(tmp_path / "src")
    (tmp_path / "job.toml").unlink()
    for _ in range(2):
        rerun = build_rerun(home, job_id)
        assert render_request(rerun.resolved, home, is_staged=True)
        assert rerun.resolved.spec == record.spec
        assert rerun.resolved.sources == record.sources
        assert rerun.staged_copy is not None
        assert rerun.staged_copy.staged == record.staged
        staged_again(home, rerun)
        shutil.rmtree(home.cache)


async def test_changed_settings(home: Home, desk: Desk, tmp_path: Path) -> None:
    job_id = await first(home, tmp_path)
    rerun = build_rerun(home, job_id, sets=["max_restarts=3"], params=["lr=2"])
    assert (rerun.resolved.spec.max_restarts, rerun.resolved.spec.params) == (3, {"lr": "2"})
    assert rerun.resolved.sources["max_restarts"] == "--set"
    assert rerun.staged_copy is not None


async def test_a_setting_that_changes_the_files(home: Home, desk: Desk, tmp_path: Path) -> None:
    """They are staged as they are now."""
    job_id = await first(home, tmp_path)
    assert build_rerun(home, job_id, sets=["gitignore=false"]).staged_copy is None
    assert build_rerun(home, job_id, restage=True).staged_copy is None


async def test_a_changed_path_is_validated(home: Home, desk: Desk, tmp_path: Path) -> None:
    job_id = await first(home, tmp_path)
    with pytest.raises(ConfigError, match="does-not-exist"):
        build_rerun(home, job_id, sets=[f"source={tmp_path / 'does-not-exist'}"])


async def test_stars_are_no_secret(home: Home, desk: Desk, tmp_path: Path) -> None:
    text = JOB.replace('command = "', "command = \"echo '*** starts ***'; ")
    assert text != JOB
    job_id = await first(home, tmp_path, text)
    assert build_rerun(home, job_id).resolved.spec == desk.jobs[0].record.spec


async def test_files_that_are_gone(home: Home, desk: Desk, tmp_path: Path) -> None:
    job_id = await first(home, tmp_path)
    shutil.rmtree(home.cache)
    shutil.rmtree(home.job(job_id).staged)
    with pytest.raises(UserError) as refused:
        build_rerun(home, job_id)
    assert mentions(str(refused.value), "source", f"tony rerun {job_id} --restage")


async def test_secrets_are_missing(home: Home, desk: Desk, tmp_path: Path) -> None:
    """Each is named with the option that gives it; with it the job is the same."""
    text = f'{JOB}{SECRET}notify = {{ webhook = "https://example.org/hook" }}\n'
    job_id = await first(home, tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        build_rerun(home, job_id)
    keys = {problem.key: problem.message for problem in refused.value.problems}
    assert keys.keys() == {"env.HF_TOKEN", "notify.webhook"}
    assert "--env HF_TOKEN" in keys["env.HF_TOKEN"]
    assert "--set notify.webhook=" in keys["notify.webhook"]
    rerun = build_rerun(
        home, job_id, sets=["notify.webhook=https://example.org/hook"], variables={"HF_TOKEN": "hush-hush"}
    )
    assert rerun.resolved.spec == desk.jobs[0].record.spec
    assert rerun.resolved.sources["env.HF_TOKEN"] == "--env"


async def test_a_job_that_still_runs_has_its_secrets(home: Home, desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(f'command = "true"\n{SECRET}')
    job_id = await submit(load(tmp_path / "job.toml", environ={}, site_files=()), home, print)
    assert json.loads(home.job(job_id).job.read_text())["spec"]["env"]["HF_TOKEN"] == "***"
    assert build_rerun(home, job_id).resolved.spec.env["HF_TOKEN"] == "hush-hush"


async def test_a_variable_of_a_role(home: Home, desk: Desk, tmp_path: Path) -> None:
    """It is set where the job has it."""
    job_id = await first(home, tmp_path, f'{JOB}[roles.worker.env]\nHF_TOKEN = "hush-hush"\n')
    spec = build_rerun(home, job_id, variables={"HF_TOKEN": "other", "NEW": "1"}).resolved.spec
    assert spec.roles["worker"].env == {"HF_TOKEN": "other"}
    assert spec.env == {"NEW": "1"}


@given(spec=jobs())
def test_any_job_is_resolved_to_itself(tmp_path_factory: pytest.TempPathFactory, spec: JobSpec) -> None:
    assert load(assumed=from_spec(spec), environ={}, cwd=Path("/"), site_files=[]).spec == spec
