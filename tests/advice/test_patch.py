"""Changes of a job file: values change, and nothing else does; written in one step or not at all."""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.advice.fleet import simulate
from tests.advice.jobs import memory_over_asked
from tests.config.specs import as_tables, jobs
from tony.advice.patch import apply, apply_changes, format_diff
from tony.advice.recommendation import SettingChange, SettingKey, SettingValue
from tony.config.load import Resolved, load
from tony.errors import ConfigError, Problem, UserError
from tony.model.codec import DecodeError, from_plain, to_plain
from tony.model.job_spec import JobSpec
from tony.model.submission_record import JobRecord

FILE = """\
# what we train
name = "digits"   # not unique
max_restarts = 2

[params]
save_every = "500"  # steps

[roles.worker]  # four of them
memory = "8g"      # enough, says Ann
instances = 4

# they only hold variables
[roles.ps]
instances = 2
kind = "untracked"
"""


def change(key: str, new: str, old: str = "") -> SettingChange:
    """A change in TOML; of most the former value does not matter."""
    return SettingChange(key=SettingKey.parse(key), old=SettingValue.parse(old), new=SettingValue.parse(new))


def test_a_value_changes_and_its_comment_stays() -> None:
    """One line differs, by the value alone."""
    assert FILE.replace('"8g"', '"2g"') == apply_changes(FILE, [change("roles.worker.memory", '"2g"')])


def test_a_parameter_in_quotes_stays_in_quotes() -> None:
    """Whatever the change looks like."""
    assert FILE.replace('"500"', '"60"') == apply_changes(FILE, [change("params.save_every", "60")])
    assert "save_every = 60  # steps" in apply_changes(
        FILE.replace('"500"', "500"), [change("params.save_every", "60")]
    )


def test_a_new_value_is_inserted_into_its_table() -> None:
    """Below one of them, before the comment that belongs to the next table."""
    text = apply_changes(FILE, [change("roles.worker.vcores", "3"), change("min_uptime", '"2m"')])
    assert "instances = 4\nvcores = 3\n\n# they only" in text
    assert 'max_restarts = 2\nmin_uptime = "2m"\n\n[params]' in text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('roles.worker.memory = "8g" # x\n[env]\nA = 1\n', 'roles.worker.memory = "2g" # x\n[env]\nA = 1\n'),
        ('roles = { worker = { memory = "8g", instances = 2 } } # x\n', None),
        ('[roles]\nworker = { memory = "8g" }\n', '[roles]\nworker = { memory = "2g" }\n'),
        ('[roles]\nworker.memory = "8g"\nps.memory = "1g"\n', '[roles]\nworker.memory = "2g"\nps.memory = "1g"\n'),
        ("[roles.\"worker\"]\n  memory = '8g'\n", None),
        (
            '[roles.worker.env]\nA = "1"\n[roles.worker]\nmemory = "8g"',
            '[roles.worker.env]\nA = "1"\n[roles.worker]\nmemory = "2g"',
        ),
        ('command = """\n[roles.worker]\nmemory = "1g"\n"""\n[roles.worker]\nmemory="8g"\n', None),
    ],
)
def test_shapes_of_files(before: str, after: str | None) -> None:
    """Dotted keys, inline tables, tables in any order, text that looks like a table."""
    made = apply_changes(before, [change("roles.worker.memory", '"2g"')])
    assert after is None or after == made
    wanted = tomllib.loads(before)
    wanted["roles"]["worker"]["memory"] = "2g"
    assert wanted == tomllib.loads(made)
    assert before.count("\n") == made.count("\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('command = "x"\n', 'command = "x"\n[roles.main]\nmemory = "2g"\n'),
        (
            'roles.worker.instances = 3\nname = "a"\n',
            'roles.worker.instances = 3\nroles.worker.memory = "2g"\nname = "a"\n',
        ),
        ("[roles.worker]\n\tinstances = 3 # x", '[roles.worker]\n\tinstances = 3 # x\n\tmemory = "2g"\n'),
        (
            '[roles.worker]\r\ninstances = 3\r\n\r\n[env]\r\nA = "1"\r\n',
            '[roles.worker]\r\ninstances = 3\r\nmemory = "2g"\r\n\r\n[env]\r\nA = "1"\r\n',
        ),
        ("[roles.worker]\r\n[env]\r\nA = 1\r\n", None),
        ("roles = { worker = { instances = 3 } }\n", None),
    ],
)
def test_values_that_were_not_there(before: str, after: str | None) -> None:
    """In the manner of those beside them; all ends of lines stay what they are."""
    role = "main" if "roles" not in before else "worker"
    made = apply_changes(before, [change(f"roles.{role}.memory", '"2g"')])
    assert after is None or tomllib.loads(after) == tomllib.loads(made)
    if after and "main" not in after:
        assert after == made
    assert "2g" == tomllib.loads(made)["roles"][role]["memory"]
    assert ("\r\n" in before) == ("\r\n" in made)
    assert "\r\n" not in before or "\n" not in made.replace("\r\n", "")


def test_a_change_without_a_table_is_refused() -> None:
    with pytest.raises(UserError, match="is not a table"):
        apply_changes('roles = "none"\n', [change("roles.worker.memory", '"2g"')])


def test_a_value_that_is_set_already_changes_nothing() -> None:
    assert FILE == apply_changes(FILE, [change("roles.worker.instances", "4")])


def test_keys_with_quotes() -> None:
    """A name with a dot is one part."""
    assert ("params", "save.every", "x") == SettingKey.parse('params."save.every".x')
    made = apply_changes('[params]\n"save.every" = 3\n', [change('params."save.every"', "5")])
    assert '[params]\n"save.every" = 5\n' == made


@pytest.mark.parametrize("key", ["roles.worker.memory", 'params."save.every"'])
@pytest.mark.parametrize(("old", "new"), [('"8g"', '"2g"'), ("4", "2"), ("", '"a \\"b\\""'), ("0.5", "true")])
def test_keys_and_values_are_toml_in_json(key: str, old: str, new: str) -> None:
    made = change(key, new, old)
    assert {"key": key, "old": old, "new": new} == to_plain(made)
    assert made == from_plain(SettingChange, to_plain(made))


@pytest.mark.parametrize(
    "wrong", [{"key": "a = 1\nb"}, {"key": ""}, {"new": "2g"}, {"new": "[1]"}, {"old": "1\nx = 2"}]
)
def test_text_that_is_not_toml_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(DecodeError):
        from_plain(SettingChange, {"key": "a", "old": "1", "new": "2", **wrong})


def test_a_diff_has_each_table_once() -> None:
    changes = [
        change("roles.worker.memory", '"2g"', '"8g"'),
        change("min_uptime", '"2m"'),
        change("roles.worker.vcores", "2", "4"),
        change('params."a.b"', "2", "1"),
    ]
    assert [
        '+ min_uptime = "2m"',
        "  [roles.worker]",
        '- memory = "8g"',
        '+ memory = "2g"',
        "- vcores = 4",
        "+ vcores = 2",
        "  [params]",
        '- "a.b" = 1',
        '+ "a.b" = 2',
    ] == format_diff(changes)


@settings(max_examples=40)
@given(spec=jobs(), windows=st.booleans(), data=st.data())
def test_any_job_file(spec: JobSpec, windows: bool, data: st.DataObject) -> None:
    """What is to be changed is, and nothing else; lines that were there are there still, in their order."""
    role = data.draw(st.sampled_from(sorted(spec.effective_roles)))
    tables = as_tables(spec)
    of_role = tables["roles"].get(role, {})
    for table, name in ((tables, "min_uptime"), (of_role, "memory"), (of_role, "vcores")):
        if data.draw(st.booleans()):
            table.pop(name, None)
    text = tomlkit.dumps(tables)
    if windows:
        text = text.replace("\n", "\r\n")
    memory, cores = change(f"roles.{role}.memory", '"3g"'), change(f"roles.{role}.vcores", "77")
    made = apply_changes(text, [memory, cores, change("min_uptime", '"77s"')])
    wanted = tomllib.loads(text)
    wanted["min_uptime"] = "77s"
    wanted.setdefault("roles", {}).setdefault(role, {}).update({"memory": "3g", "vcores": 77})
    assert wanted == tomllib.loads(made)
    kept, new = iter(made.split("\n")), ("memory", "vcores", "min_uptime")
    assert all(any(line == other for other in kept) for line in text.split("\n") if not any(n in line for n in new))
    assert not windows or "\n" not in made.replace("\r\n", "")


JOB_FILE = """\
# ours
name = "fleet"
command = "train"
params = { lr = 0.1 }

[roles.worker]
instances = 2
memory = "8g"  # plenty
"""
MEMORY = change("roles.worker.memory", '"2g"', '"8g"')


def job(path: Path, *sets: str, text: str = JOB_FILE) -> JobRecord:
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
    assert JOB_FILE.replace('"8g"', '"2g"') == path.read_text() == applied.after
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
    text = "\ufeff" + JOB_FILE.replace("\n", "\r\n")
    apply(path, job(path, text=text), [MEMORY, change("roles.worker.vcores", "2", "1")])
    assert text.replace('"8g"  # plenty\r\n', '"2g"  # plenty\r\nvcores = 2\r\n').encode() == path.read_bytes()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (JOB_FILE.replace("fleet", "other"), "its name is 'other', the job's is 'fleet'"),
        (JOB_FILE.replace("roles.worker", "roles.trainer"), "its roles is 'trainer', the job's is 'worker'"),
        (JOB_FILE.replace('"train"', '"test"'), "the command of worker differs"),
        (JOB_FILE.replace("command", 'framework = "jax"\ncommand'), "its framework is 'jax'"),
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
    cores = change("roles.worker.vcores", "2", "1")
    applied = apply(path, job(path, "roles.worker.memory=8g"), [MEMORY, cores])
    assert ((cores,), ((MEMORY, "it was set by --set: change it there"),)) == (applied.made, applied.left)
    assert '"8g"' in path.read_text()


def test_a_value_of_a_variable_or_a_call_is_left(path: Path) -> None:
    path.write_text(JOB_FILE)
    variable = "TONY_SET_ROLES__WORKER__MEMORY"
    given = {"roles.worker.memory": "8g"}
    simulated = simulate(memory_over_asked(Random(0)), Random(0))
    for resolved, source in (
        (load(path, environ={variable: "8g"}, site_files=[]), f"env {variable}"),
        (load(path, overrides=given, environ={}, site_files=[]), "argument"),
    ):
        record = replace(simulated.record, spec=resolved.spec, sources=resolved.sources)
        assert ((MEMORY, f"it was set by {source}: change it there"),) == apply(path, record, [MEMORY]).left


@pytest.mark.parametrize("name", ["arguments.toml", "env vars.toml"])
def test_a_file_may_be_called_like_another_source(path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(path.parent)
    assert apply(Path(name), job(Path(name)), [MEMORY]).left == ()


def test_a_value_that_was_changed_meanwhile_is_left(path: Path) -> None:
    record = job(path)
    path.write_text(JOB_FILE.replace('"8g"', '"4g"'))
    applied = apply(path, record, [MEMORY])
    assert (False, "has changed since" in applied.left[0][1]) == (bool(applied.made), True)
    assert JOB_FILE.replace('"8g"', '"4g"') == path.read_text()


def test_a_parameter_of_the_command_line_is_given_again(path: Path) -> None:
    """Without it the file would not even be taken."""
    text = JOB_FILE.replace("params = { lr = 0.1 }\n", "").replace('"train"', '"train {params.lr}"')
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
    assert JOB_FILE == path.read_text()
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
    apply(path, record, [change("roles.main.memory", '"2g"', '"1g"')])
    assert 2 * 1024**3 == load(path, environ={}, site_files=[]).spec.effective_roles["main"].resources.memory
