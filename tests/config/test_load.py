"""Tests of `tony.config.load`: what a job file says becomes a JobSpec, and what is stronger wins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.config.jobs import resolve, write
from tests.facts import mention_each, mentions
from tony.config.load import load, with_sources
from tony.errors import ConfigError, Problem
from tony.model.job_spec import GIB, JobSpec, Resources, Role, Timeouts
from tony.model.setting_choices import (
    AfterCondition,
    RoleKind,
    TlsMode,
)


def test_a_short_file_gets_every_default(tmp_path: Path) -> None:
    """One line is a job; its name is that of its folder."""
    folder = tmp_path / "my job"
    folder.mkdir()
    assert JobSpec(name="my job", command="true") == resolve(folder, 'command = "true"').spec


@pytest.mark.parametrize(
    ("expected", "name"),
    [("train", "train.toml"), ("mnist", "mnist/job.toml"), ("big.train", "big.train.toml"), ("plain", "plain")],
)
def test_a_job_without_a_name_is_called_after_its_file(tmp_path: Path, expected: str, name: str) -> None:
    """The stem of the file, or the folder of a job.toml."""
    assert expected == resolve(tmp_path, 'command = "true"', name=name).spec.name


def test_every_value_knows_its_place(tmp_path: Path) -> None:
    """Sources are given for what was set, under the file's name as the user gave it."""
    text = 'command = "echo {params.lr}"\n\n[roles.worker]\n'
    text += 'memory = "2g"\nenv = { A = 1, "B.C" = 2 }\nafter = { started = ["b"] }\n'
    resolved = resolve(
        tmp_path,
        text + "[roles.b]",
        name="jobs/train.toml",
        sets=["roles.worker.vcores=2"],
        params=["lr=1"],
        environ={"TONY_SET_MAX_RESTARTS": "1"},
        overrides={"name": "x"},
    )
    assert {
        "command": "jobs/train.toml:1",
        "roles.worker.memory": "jobs/train.toml:4",
        "roles.worker.env.A": "jobs/train.toml:5",
        'roles.worker.env."B.C"': "jobs/train.toml:5",
        "roles.worker.after.started": "jobs/train.toml:6",
        "roles.worker.vcores": "--set",
        "params.lr": "--param",
        "max_restarts": "env TONY_SET_MAX_RESTARTS",
        "name": "argument",
    } == resolved.sources


def test_the_source_of_overrides_can_be_named(tmp_path: Path) -> None:
    """A command line that makes a job from its own flags says so."""
    resolved = load(overrides={"command": "true"}, environ={}, cwd=tmp_path, site_files=[], overrides_source="--role")
    assert {"command": "--role"} == resolved.sources


LAYERS: list[tuple[str, str]] = [
    ("machine", "/etc"),
    ("user", "~/.config"),
    ("file", "job.toml:2"),
    ("environment", "env TONY_SET_STOP_GRACE"),
    ("set", "--set"),
    ("call", "argument"),
]


@pytest.mark.parametrize("strongest", range(len(LAYERS)))
@pytest.mark.parametrize("weaker", range(len(LAYERS)))
def test_the_stronger_place_wins(tmp_path: Path, strongest: int, weaker: int) -> None:
    """Defaults, /etc, ~/.config, job file, TONY_SET_, --set, call: each beats all before it."""
    present = {LAYERS[strongest][0], LAYERS[weaker][0]}
    values = {name: f"{number + 1}s" for number, (name, _) in enumerate(LAYERS)}
    line = {name: f'stop_grace = "{value}"\n' if name in present else "" for name, value in values.items()}
    sites = [write(tmp_path, line["machine"], "etc.toml"), write(tmp_path, line["user"], "user.toml")]
    resolved = resolve(
        tmp_path,
        'command = "true"\n' + line["file"],
        sites=sites,
        environ={"TONY_SET_STOP_GRACE": values["environment"]} if "environment" in present else {},
        sets=[f"stop_grace={values['set']}"] if "set" in present else [],
        overrides={"stop_grace": values["call"]} if "call" in present else None,
    )
    winner = max(strongest, weaker)
    assert winner + 1.0 == resolved.spec.stop_grace
    place = LAYERS[winner][1].replace("/etc", f"{sites[0]}:1").replace("~/.config", f"{sites[1]}:1")
    assert place == resolved.sources["stop_grace"]


def test_tables_are_merged_key_by_key_and_lists_replaced(tmp_path: Path) -> None:
    """A stronger place adds to a table; a list is what the strongest says."""
    text = """
command = "true"
env = { A = 1, B = 1 }
[roles.a]
memory = "2g"
[roles.b]
after = ["a"]
[roles.c]
after = { ended = ["a"] }
[groups]
g = ["a", "b"]
"""
    spec = resolve(
        tmp_path,
        text,
        sets=["env.B=2", "roles.a.gpus=1", 'groups.g=["c"]', 'roles.c.after.started=["b"]', "roles.d.instances=3"],
        overrides={"env": {"C": 3}, "roles.b.after": {"started": ["a"]}},
    ).spec
    assert {"A": "1", "B": "2", "C": "3"} == spec.env
    assert Resources(memory=2 * GIB, gpus=1) == spec.roles["a"].resources
    assert {"a": AfterCondition.STARTED} == spec.roles["b"].after
    assert {"a": AfterCondition.ENDED, "b": AfterCondition.STARTED} == spec.roles["c"].after
    assert {"g": ("c",)} == spec.groups
    assert ["a", "b", "c", "d"] == list(spec.roles)


def test_param_beats_set_and_file(tmp_path: Path) -> None:
    """`--param` is a shorter `--set params.`, and its value is text as it stands."""
    spec = resolve(
        tmp_path,
        'command = "echo {params.text}"\nparams = { lr = 1, a = 2, b = 3 }',
        sets=["params.lr=2", "params.a=1.50", "params.flag=true"],
        params=["lr=1e-3", 'text="x"'],
    ).spec
    assert {"lr": "1e-3", "a": "1.50", "b": "3", "flag": "true", "text": '"x"'} == spec.params


def test_relative_paths_are_relative_to_their_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a file to its folder, those of command line and call to the current folder; `~` is the home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("jobs/src", "here/src", "tree"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("jobs/a", "here/b", "c", "jobs/env/bin/python"):
        write(tmp_path, "", name)
    text = 'command = "x"\nsource = "src"\nfiles = ["a", "../c"]\n[roles.w]\npython = "env/bin/python"\nfiles = ["~/c"]'
    write(tmp_path, text, "jobs/job.toml")
    here = tmp_path / "here"
    spec = load("../jobs/job.toml", environ={}, cwd=here, site_files=[]).spec
    jobs = here / ".." / "jobs"
    assert f"{jobs}/src" == spec.source
    assert (f"{jobs}/a", f"{jobs}/../c") == spec.files
    assert (f"{jobs}/env/bin/python", (f"{tmp_path}/c",)) == (spec.roles["w"].python, spec.roles["w"].files)
    spec = load(
        tmp_path / "jobs/job.toml",
        sets=["source=src", "roles.w.python=python3.12"],
        overrides={"files": [Path("b")]},
        environ={},
        cwd=here,
        site_files=[],
    ).spec
    assert (f"{here}/src", (f"{here}/b",), "python3.12") == (spec.source, spec.files, spec.roles["w"].python)
    home = load(overrides={"command": "x", "source": "~/tree"}, environ={}, cwd=here, site_files=[]).spec
    assert str(tmp_path / "tree") == home.source


def test_a_job_needs_no_file(tmp_path: Path) -> None:
    """Flags alone are a job; everything else has its default."""
    spec = resolve(tmp_path, sets=["command=python train.py --x 1", "name=123"]).spec
    assert JobSpec(name="123", command="python train.py --x 1") == spec


def test_all_errors_of_a_jobspec_are_reported(tmp_path: Path) -> None:
    """Types that Python does not check are checked here."""
    odd: Any = ["not a mapping"]
    missing = 'no command: neither the role nor the job has one. Write command = "python train.py".'
    spec = JobSpec(
        max_restarts="2",  # type: ignore[arg-type]
        stop_grace=-1.0,
        log_limit=1.5,  # type: ignore[arg-type]
        env=odd,
        timeouts=Timeouts(job=-5.0, startup=float("nan")),
        tls="always",  # type: ignore[arg-type]
        roles={
            "worker": Role(resources=Resources(memory=2), instances=True, after={"wroker": AfterCondition.ENDED}),
            "other": {"memry": "1g"},  # type: ignore[dict-item]
        },
        groups={"g": "worker"},  # type: ignore[dict-item]
    )
    with pytest.raises(ConfigError) as caught:
        load(None, overrides=spec, environ={}, cwd=tmp_path, site_files=[])
    assert mention_each(
        [str(problem) for problem in caught.value.problems],
        ('max_restarts = "2" (argument)', "whole number", "quotes"),
        ("stop_grace = -1.0 (argument)", "0s"),
        ("startup_timeout = nan (argument)", "seconds"),
        ("job_timeout = -5.0 (argument)", "duration", "negative"),
        ("log_limit = 1.5 (argument)", "bytes"),
        ('env = ["not a mapping"] (argument)', "NAME ="),
        ('groups.g = "worker" (argument)', '["worker"]'),
        ("roles.worker.instances = true (argument)", "whole number"),
        ("roles.worker.memory = 2 (argument)", "1m"),
        ('roles.other.memry = "1g" (argument)', "memory"),
        ("roles.worker (argument)", missing),
        ("roles.other (argument)", missing),
        ('roles.worker.after.ended[0] = "wroker" (argument)', "worker"),
    )


def test_a_jobspec_with_wrong_tables_is_an_error(tmp_path: Path) -> None:
    """Whole tables of the wrong kind."""
    odd: Any = "odd"
    spec = JobSpec(
        command="x",
        timeouts=odd,
        params={"A": None},  # type: ignore[dict-item]
        roles={"a": Role(resources=odd, after=("b",), timeout_after=odd), "b": odd, "c": Role(after={1: odd})},  # type: ignore[dict-item, arg-type]
    )
    with pytest.raises(ConfigError) as caught:
        load(None, overrides=spec, environ={}, cwd=tmp_path, site_files=[])
    assert [
        "timeouts",
        "params.A",
        "roles.a.resources",
        "roles.a.timeout_after",
        "roles.b",
        "roles.c.after.1",
    ] == [problem.key for problem in caught.value.problems]


def test_a_broken_plug_in_is_an_error_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    write(info, "Name: broken\nVersion: 1.0\n", "METADATA")
    write(info, "[tony.frameworks]\nbroken = no_such_module_at_all:Adapter\n", "entry_points.txt")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        resolve(tmp_path, 'command = "x"\nframework = "broken"')
    assert mentions(
        str(caught.value),
        'framework = "broken" (job.toml:2)',
        "no_such_module_at_all",
        "no_such_module_at_all:Adapter",
        "ModuleNotFoundError",
    )


def test_a_jobspec_may_be_laid_over_a_file(tmp_path: Path) -> None:
    """Only what differs from the defaults counts as said by the call."""
    spec = resolve(
        tmp_path,
        'command = "true"\nmax_restarts = 3\n[roles.worker]\nmemory = "2g"',
        overrides=JobSpec(name="mine", roles={"worker": Role(instances=4)}),
    ).spec
    assert ("mine", 3, 4, 2 * GIB) == (
        spec.name,
        spec.max_restarts,
        spec.roles["worker"].instances,
        spec.roles["worker"].resources.memory,
    )


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"scheduler": "local"}, JobSpec(command="x", scheduler="local")),
        ({"scheduler": "local", "scheduler.local.gpus": 2}, JobSpec(command="x", scheduler_settings={"gpus": 2})),
        ({"roles": {"a": Role(instances=2)}}, JobSpec(command="x", roles={"a": Role(instances=2)})),
        ({"roles.a": {"kind": RoleKind.TRACKED}}, JobSpec(command="x", roles={"a": Role()})),
        ({"command": ("a", 1)}, JobSpec(command=("a", "1"))),
        ({"env": {"A": 1.5, "B": 2}}, JobSpec(command="x", env={"A": "1.5", "B": "2"})),
        ({"tls": TlsMode.ALWAYS}, JobSpec(command="x", tls=TlsMode.ALWAYS)),
        ({"registration_timeout": "off"}, JobSpec(command="x", timeouts=Timeouts(registration=None))),
    ],
)
def test_a_call_may_give_a_mapping(tmp_path: Path, overrides: Mapping[str, Any], expected: JobSpec) -> None:
    assert (
        expected == resolve(tmp_path, 'command = "x"', name="x/job.toml", overrides={"name": "job", **overrides}).spec
    )


def test_scheduler_may_be_a_string(tmp_path: Path) -> None:
    """`scheduler = "local"` is `scheduler.name`, in every place."""
    for more in ({}, {"sets": ["scheduler=local"]}, {"environ": {"TONY_SET_SCHEDULER": "local"}}):
        text = 'command = "x"\n' + ("" if more else 'scheduler = "local"')
        assert "local" == resolve(tmp_path, text, **more).spec.scheduler


def test_other_errors_are_reported_with_an_unreadable_file(tmp_path: Path) -> None:
    """Errors that only follow from the missing file are not."""
    with pytest.raises(ConfigError) as caught:
        load("job.toml", sets=["max_restart=1"], environ={}, cwd=tmp_path, site_files=[])
    assert [
        f"job.toml: no such file in {tmp_path}.",
        "max_restart = 1 (--set): unknown key; did you mean `max_restarts`?",
    ] == [str(problem) for problem in caught.value.problems]


def test_problems_of_others_get_their_source(tmp_path: Path) -> None:
    """A scheduler knows only the JobSpec; where its values were set is added."""
    sources = {"roles.worker.gpus": "job.toml:7"}
    problems = [Problem(key="roles.worker.gpus", message="too many"), Problem(key="name", message="odd", source="x")]
    assert ["job.toml:7", "x"] == [problem.source for problem in with_sources(problems, sources)]


def test_values_of_one_line_files_are_found_again_in_order(tmp_path: Path) -> None:
    """The order of env, params and groups is the author's."""
    spec = resolve(tmp_path, 'command = "x"\nparams = { z = 1, a = 2, m = 3 }').spec
    assert ["z", "a", "m"] == list(spec.params)


def test_odd_names_of_job_files_are_shown_on_one_line(tmp_path: Path) -> None:
    """A home directory that does not exist, and control characters."""
    for name, shown in (("~no-such-user/x.toml", "~no-such-user/x.toml"), ("a\nb.toml", r'"a\nb.toml"')):
        with pytest.raises(ConfigError) as caught:
            load(name, environ={}, cwd=tmp_path, site_files=[])
        assert f"{shown}: no such file in " in str(caught.value)


def test_a_removed_working_directory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    obsolete = tmp_path / "gone"
    obsolete.mkdir()
    monkeypatch.chdir(obsolete)
    obsolete.rmdir()
    with pytest.raises(ConfigError, match="the current folder has been removed"):
        load(overrides={"command": "x"}, environ={}, site_files=[])


def test_importing_and_loading_toml_brings_no_yaml_in() -> None:
    """A command line that is about to start a job does not pay for parsers that it does not need."""
    code = (
        "import sys; from tony.config.load import load, load; "
        "assert not {'yaml', 'tomlkit', 'tomllib', 'difflib', 'importlib.metadata'} & set(sys.modules), sys.modules; "
        "load(overrides={'command': 'x'}, environ={}, site_files=[]); "
        "assert not {'yaml', 'tomlkit', 'difflib', 'importlib.metadata'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PATH": os.environ["PATH"]}, timeout=60)


def test_a_wait_that_nothing_waits_for(tmp_path: Path) -> None:
    """It is worth a remark where the job itself sets it; a site's default may be for other jobs."""
    text = 'command = "x"\ngang_wait = "5s"\n[roles.worker]\ninstances = {}\n'
    site = write(tmp_path, 'shrink_after = "9s"', "site.toml")
    resolved = resolve(tmp_path, text.format(3), sites=[site])
    assert [(note.key, note.source) for note in resolved.notes] == [("gang_wait", "job.toml:2")]
    assert "no role is elastic" in resolved.notices[0]
    assert resolve(tmp_path, text.format("{ min = 2, max = 3 }"), sites=[site]).notes == ()
