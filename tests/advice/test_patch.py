"""Changes in the text of a job file: values change, and nothing else does."""

from __future__ import annotations

import tomllib

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.specs import as_tables, jobs
from tony.advice.patch import apply_changes, format_diff, parts_of
from tony.advice.recommendation import SettingChange
from tony.errors import UserError
from tony.model.job_spec import JobSpec

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


def change(key: str, new: str) -> SettingChange:
    """A change whose former value does not matter."""
    return SettingChange(key=key, old="", new=new)


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
    assert ("params", "save.every", "x") == parts_of('params."save.every".x')
    made = apply_changes('[params]\n"save.every" = 3\n', [change('params."save.every"', "5")])
    assert '[params]\n"save.every" = 5\n' == made


def test_a_diff_has_each_table_once() -> None:
    changes = [
        SettingChange(key="roles.worker.memory", old='"8g"', new='"2g"'),
        SettingChange(key="min_uptime", old="", new='"2m"'),
        SettingChange(key="roles.worker.vcores", old="4", new="2"),
        SettingChange(key='params."a.b"', old="1", new="2"),
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
