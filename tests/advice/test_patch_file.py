"""Changes written into a job file: only the job's own, only what is set there, in one step or not at all."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.advice.fleet import simulate
from tests.advice.jobs import memory_over_asked
from tony.advice.patch import apply
from tony.advice.recommendation import SettingChange
from tony.config.load import Resolved, load
from tony.errors import ConfigError, Problem, UserError
from tony.model.submission_record import JobRecord

FILE = """\
# ours
name = "fleet"
command = "train"
params = { lr = 0.1 }

[roles.worker]
instances = 2
memory = "8g"  # plenty
"""
MEMORY = SettingChange(key="roles.worker.memory", old='"8g"', new='"2g"')


def job(path: Path, *sets: str, text: str = FILE) -> JobRecord:
    """The record of a job that was submitted from a file."""
    path.write_bytes(text.encode())
    resolved = load(path, sets=sets, environ={}, site_files=[])
    simulated = simulate(memory_over_asked(Random(0)), Random(0))
    return replace(simulated.record, spec=resolved.spec, sources=resolved.sources)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the job's file is; no site file says anything."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "job.toml"


def test_the_value_is_written(path: Path) -> None:
    """The rest stays, byte for byte; so do the file's rights."""
    record = job(path)
    path.chmod(0o640)
    applied = apply(path, record, [MEMORY])
    assert FILE.replace('"8g"', '"2g"') == path.read_text() == applied.after
    assert ((MEMORY,), ()) == (applied.made, applied.left)
    assert 0o640 == path.stat().st_mode & 0o777
    assert ["job.toml"] == os.listdir(path.parent)


def test_a_link_stays_one(path: Path) -> None:
    """What it leads to is written."""
    record = job(path)
    link = path.with_name("link.toml")
    link.symlink_to(path)
    apply(link, record, [MEMORY])
    assert link.is_symlink()
    assert '"2g"' in path.read_text()


def test_a_mark_and_ends_of_lines_stay(path: Path) -> None:
    text = "\ufeff" + FILE.replace("\n", "\r\n")
    apply(path, job(path, text=text), [MEMORY, SettingChange(key="roles.worker.vcores", old="1", new="2")])
    assert text.replace('"8g"  # plenty\r\n', '"2g"  # plenty\r\nvcores = 2\r\n').encode() == path.read_bytes()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (FILE.replace("fleet", "other"), "its name is 'other', the job's is 'fleet'"),
        (FILE.replace("roles.worker", "roles.trainer"), "its roles is 'trainer', the job's is 'worker'"),
        (FILE.replace('"train"', '"test"'), "the command of worker differs"),
        (FILE.replace("command", 'framework = "jax"\ncommand'), "its framework is 'jax'"),
    ],
)
def test_another_jobs_file_is_refused(path: Path, text: str, why: str) -> None:
    """It says what is different, and the file is as it was."""
    record = job(path)
    path.write_text(text)
    with pytest.raises(UserError, match=why):
        apply(path, record, [MEMORY])
    assert text == path.read_text()


def test_an_invalid_file_is_refused(path: Path) -> None:
    record = job(path)
    path.write_text("frobs = 1\n")
    with pytest.raises(ConfigError):
        apply(path, record, [MEMORY])


def test_a_value_of_the_command_line_is_left(path: Path) -> None:
    """The file does not decide it; what it does decide is written all the same."""
    cores = SettingChange(key="roles.worker.vcores", old="1", new="2")
    applied = apply(path, job(path, "roles.worker.memory=8g"), [MEMORY, cores])
    assert ((cores,), ((MEMORY, "it was set by --set: change it there"),)) == (applied.made, applied.left)
    assert '"8g"' in path.read_text()


def test_a_value_that_was_changed_meanwhile_is_left(path: Path) -> None:
    record = job(path)
    path.write_text(FILE.replace('"8g"', '"4g"'))
    applied = apply(path, record, [MEMORY])
    assert (False, "has changed since" in applied.left[0][1]) == (bool(applied.made), True)
    assert FILE.replace('"8g"', '"4g"') == path.read_text()


def test_a_parameter_of_the_command_line_is_given_again(path: Path) -> None:
    """Without it the file would not even be taken."""
    text = FILE.replace("params = { lr = 0.1 }\n", "").replace('"train"', '"train {params.lr}"')
    path.write_text(text)
    resolved = load(path, params=["lr=0.3"], environ={}, site_files=[])
    simulated = simulate(memory_over_asked(Random(0)), Random(0))
    record = replace(simulated.record, spec=resolved.spec, sources=resolved.sources)
    assert apply(path, record, [MEMORY]).made


def test_an_invalid_patch_is_not_written(path: Path) -> None:
    def refuse(resolved: Resolved) -> None:
        assert resolved.spec.roles["worker"].resources.memory == 2 * 1024**3
        raise ConfigError([Problem(key="roles.worker.memory", message="no machine is so small.")])

    record = job(path)
    with pytest.raises(UserError, match="nothing was written: no machine is so small"):
        apply(path, record, [MEMORY], refuse)
    assert FILE == path.read_text()
    assert ["job.toml"] == os.listdir(path.parent)


@pytest.mark.parametrize(("name", "why"), [("job.yaml", "is YAML"), ("tony.xml", "tony convert .*tony.xml > job.toml")])
def test_other_kinds_of_files_are_not_written_into(path: Path, name: str, why: str) -> None:
    record = job(path)
    other = path.with_name(name)
    other.write_text("")
    with pytest.raises(UserError, match=why):
        apply(other, record, [MEMORY])


def test_a_job_without_roles(path: Path) -> None:
    record = job(path, text='name = "fleet"\ncommand = "train"\n')
    apply(path, record, [SettingChange(key="roles.main.memory", old='"1g"', new='"2g"')])
    assert 2 * 1024**3 == load(path, environ={}, site_files=[]).spec.effective_roles["main"].resources.memory
