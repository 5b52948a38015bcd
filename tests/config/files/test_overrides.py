"""Tests of `tony.config.files.overrides`: `TONY_SET_...`, `--set`, `--param`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.config.jobs import list_errors, resolve
from tests.facts import mention_each
from tony.config.files.overrides import from_environment, parse_flag_value
from tony.config.table.layers import Garbled, Written, merge
from tony.model.job_spec import GIB
from tony.model.setting_choices import TlsMode

JOB = """
command = "x"
[roles.worker]
[roles.My-Role]
[params]
LearnRate = 1
[env]
a_b = "1"
"""


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (Written(2, "2"), "2"),
        (Written(True, "true"), "true"),
        (Written(0.1, "1e-1"), "1e-1"),
        (Written(["a", 1], '["a", 1]'), '["a", 1]'),
        ({"a": 1}, "{ a = 1 }"),
        ("x y", '"x y"'),
        ("2g", "2g"),
        ("python train.py --lr 0.1", "python train.py --lr 0.1"),
        ("", ""),
        ("1\nother = 2", "1\nother = 2"),
        ("2 # no comment", "2 # no comment"),
        ("a [list] of 'words'", "a [list] of 'words'"),
        (Garbled("[" * 9999, "it is nested too deeply"), "[" * 9999),
        ("9" * 5000, "9" * 5000),
    ],
    ids=lambda text: str(text)[:20],
)
def test_a_flag_is_toml_if_it_can_be(expected: Any, text: str) -> None:
    """Anything else is text as it stands."""
    if text == "2 # no comment":
        assert 2 == parse_flag_value(text).value
    else:
        assert expected == parse_flag_value(text)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            r'"env|grep tony\|token"',
            "it begins like text in quotes in TOML, but is not valid: Unescaped '\\' in a string.",
        ),
        ("[ -f x ] && run", "it begins like a list in TOML, but is not valid: "),
        ('{"a": 1}', "it begins like a table in TOML, but is not valid: "),
        ("'not closed", "it begins like text in quotes in TOML, but is not valid: "),
        ('"a\nb"', "it begins like text in quotes in TOML, but is not valid: it has more than one line."),
    ],
)
def test_a_flag_with_broken_toml_is_an_error(tmp_path: Path, value: str, said: str) -> None:
    """Otherwise its quotes would silently become a part of the value."""
    for flags in ({"sets": [f"command={value}"]}, {"environ": {"TONY_SET_COMMAND": value}}):
        (found,) = list_errors(tmp_path, JOB, **flags)
        assert said in found
        assert "put it in single quotes of its own: '...'." in found or "'" in value
    assert value == resolve(tmp_path, JOB, params=[f"LearnRate={value}"]).spec.params["LearnRate"]


def test_set_takes_every_kind_of_setting(tmp_path: Path) -> None:
    """The value is read as its key wants it; a later --set wins."""
    spec = resolve(
        tmp_path,
        JOB,
        sets=[
            "max_restarts=1",
            "max_restarts=2",
            "name=2024",
            "tls=always",
            "roles.worker.memory=2g",
            "roles.worker.command=python x.py # all of it",
            'roles.My-Role.command=["python", "x.py"]',
            'env."A.B"=1.50',
            "env.FLAG=true",
            "env.JSON=[1, 2]",
            "port_range=[20000, 20100]",
            "job_timeout=off",
            "groups={ g = ['worker'] }",
            "scheduler.local.gpus=2",
        ],
    ).spec
    assert (2, "2024", TlsMode.ALWAYS, 2 * GIB) == (
        spec.max_restarts,
        spec.name,
        spec.tls,
        spec.roles["worker"].resources.memory,
    )
    assert "python x.py # all of it" == spec.roles["worker"].command
    assert ("python", "x.py") == spec.roles["My-Role"].command
    assert {"a_b": "1", "A.B": "1.50", "FLAG": "true", "JSON": "[1, 2]"} == spec.env
    assert ((20000, 20100), {"g": ("worker",)}, {"gpus": 2}) == (
        spec.port_range,
        spec.groups,
        spec.scheduler_settings,
    )


def test_a_table_is_merged_into_existing_values(tmp_path: Path) -> None:
    """Key by key, like everything else; `scheduler` as a variable's name is just a name."""
    spec = resolve(
        tmp_path, JOB, sets=["env.A=1", "env={ B = 2, scheduler = 'x' }", "scheduler=local", "scheduler.local.gpus=1"]
    ).spec
    assert {"a_b": "1", "A": "1", "B": "2", "scheduler": "x"} == spec.env
    assert ("local", {"gpus": 1}) == (spec.scheduler, spec.scheduler_settings)


def test_set_errors(tmp_path: Path) -> None:
    """No key=value, no key, an unknown key, a wrong value."""
    text = "write --set key=value, such as --set max_restarts=2."
    assert mention_each(
        list_errors(
            tmp_path,
            JOB,
            sets=[
                "max_restarts",
                "=3",
                "a b=3",
                "a..b=3",
                "[x]=3",
                "role.x=1",
                "roles.worker.memory=4096",
                "max_restarts=two",
            ],
        ),
        ("max_restarts", "--set", text),
        ("=3", "--set", text),
        ("a b=3", "--set", text),
        ("a..b=3", "--set", text),
        ("[x]=3", "--set", text),
        ("roles.worker.memory = 4096 (--set)", "4096m", "4096g", "MiB", "GiB"),
        ("role (--set)", "roles"),
        ('max_restarts = "two" (--set)', "expected", "number"),
    )


def test_param_errors(tmp_path: Path) -> None:
    """A parameter has a name and a value."""
    text = "write --param name=value, such as --param lr=0.1."
    assert mention_each(
        list_errors(tmp_path, JOB, params=["lr", "=1", "a b=1"]),
        ("lr", "--param", text),
        ("=1", "--param", text),
        ('params."a b" (--param)', "100"),
    )


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("TONY_SET_MAX_RESTARTS", "max_restarts"),
        ("TONY_SET_max_restarts", "max_restarts"),
        ("TONY_SET_ROLES__WORKER__INSTANCES", "roles.worker.instances"),
        ("TONY_SET_ROLES__MY_ROLE__INSTANCES", "roles.My-Role.instances"),
        ("TONY_SET_ROLES__NEW__INSTANCES", "roles.new.instances"),
        ("TONY_SET_ROLES__Newer__INSTANCES", "roles.Newer.instances"),
        ("TONY_SET_PARAMS__LEARNRATE", "params.LearnRate"),
        ("TONY_SET_PARAMS__A__B", "params.a__b"),
        ("TONY_SET_ENV__OMP_NUM_THREADS", "env.OMP_NUM_THREADS"),
        ("TONY_SET_ENV__A_B", "env.A_B"),
        ("TONY_SET_ENV___X", "env._X"),
        ("TONY_SET_ENV__A__B", "env.A__B"),
        ("TONY_SET_ROLES__WORKER__ENV__lower", "roles.worker.env.lower"),
        ("TONY_SET_SCHEDULER__LOCAL__GPUS", "scheduler.local.gpus"),
    ],
)
def test_a_variable_names_a_setting(tmp_path: Path, variable: str, key: str) -> None:
    """`__` is the dot; case and dashes are found again in what weaker places say; variables' names stay as they are."""
    resolved = resolve(tmp_path, JOB, environ={variable: "2"})
    assert f"env {variable}" == resolved.sources[key]


def test_other_variables_are_not_ours(tmp_path: Path) -> None:
    """TONY_... belongs to the user's program and to us, unless it is TONY_SET_."""
    environ = {"TONY_HOME": "/x", "TONY_SETTING": "1", "MAX_RESTARTS": "3", "TONY_TASK": "x"}
    assert 0 == resolve(tmp_path, JOB, environ=environ).spec.max_restarts


def test_variable_errors(tmp_path: Path) -> None:
    """The variable is named in each message."""
    environ = {"TONY_SET_": "1", "TONY_SET_A____B": "x" * 100, "TONY_SET_MAX_RESTART": "2", "TONY_SET_TLS": "\udcff"}
    example = "this is not a setting; write such as TONY_SET_MAX_RESTARTS=2 or TONY_SET_ROLES__WORKER__MEMORY=2g."
    assert mention_each(
        list_errors(tmp_path, JOB, environ=environ),
        ("env TONY_SET_", '"1"', example),
        (f'env TONY_SET_A____B: "{"x" * 59}…": {example}',),
        ("max_restart = 2 (env TONY_SET_MAX_RESTART)", "max_restarts"),
        ('tls = "\\uDCFF" (env TONY_SET_TLS)', "auto", "always"),
    )


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    """Arguments and variables may be any bytes; a record is text."""
    assert mention_each(
        list_errors(tmp_path, JOB, sets=["name=\udcff", "env.A=\udcff"]),
        ('env.A = "\\uDCFF" (--set)', "UTF-8"),
        ('name = "\\uDCFF" (--set)', "UTF-8"),
    )


def test_a_long_key_is_shortened(tmp_path: Path) -> None:
    """A whole file pasted into a flag still gives a readable error."""
    (told,) = list_errors(tmp_path, JOB, sets=[f"{'x' * 100_000}=1"])
    assert told.startswith("x" * 100)
    assert len(told) < 500


def test_the_first_variable_of_a_key_is_named(tmp_path: Path) -> None:
    environ = {"TONY_SET_ROLES__A__ENV__X": "1", "TONY_SET_ROLES__B__ENV__Y": "2", "TONY_SET_ROLES__A__ENV__Z": "3"}
    layer, _ = from_environment(environ, merge([]), tmp_path)
    assert "env TONY_SET_ROLES__A__ENV__X" == layer.where(("roles",))
    assert "env TONY_SET_ROLES__B__ENV__Y" == layer.where(("roles", "b"))
    assert "env TONY_SET_ROLES__A__ENV__Z" == layer.where(("roles", "a", "env", "Z"))
    assert "env TONY_SET_ROLES__A__ENV__Z" == layer.where(("roles", "a", "env", "Z", "0"))
    assert "env" == layer.where(("tls",))
