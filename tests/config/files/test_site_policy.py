"""Tests of `tony.config.files.site_policy`: defaults, finals and limits, checked by the client and again by the AM."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tony
from tests.config.jobs import list_errors, resolve, write
from tests.facts import mention_each
from tony.config.files.site_file_paths import default_site_files
from tony.config.files.site_policy import check_again
from tony.model.job_spec import GIB, JobSpec, Resources, Role, Timeouts
from tony.model.setting_choices import TlsMode

JOB = 'command = "x"\n'


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    return tmp_path / "etc" / "tony.toml"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Where the user's own site file lies."""
    return tmp_path / "own" / "tony.toml"


def put(path: Path, text: str) -> Path:
    return write(path.parent, text, path.name)


def test_site_files_lie_where_they_should() -> None:
    """The machine's first, then the user's, also where XDG puts it."""
    machine = Path("/etc/tony/tony.toml")
    assert (machine, Path("/home/x/.config/tony/tony.toml")) == default_site_files({"HOME": "/home/x"})
    assert (machine, Path("/c/tony/tony.toml")) == default_site_files({"HOME": "/home/x", "XDG_CONFIG_HOME": "/c"})
    assert (machine, Path("/h/.config/tony/tony.toml")) == default_site_files({"HOME": "/h", "XDG_CONFIG_HOME": "rel"})


def test_a_user_without_a_home_has_no_site_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one in a folder called `~` below the current one."""
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000 // 2)
    assert (Path("/etc/tony/tony.toml"),) == default_site_files({})


def test_a_site_gives_defaults(tmp_path: Path, etc: Path, own: Path) -> None:
    """Anything that a whole site can say; its relative paths are relative to its own folder."""
    (etc.parent).mkdir()
    write(etc.parent, "", "ca.pem")
    put(
        etc, 'max_restarts = 1\nstop_grace = "1m"\nfiles = ["ca.pem"]\n[env]\nA = 1\nB = 1\n[scheduler.local]\ngpus = 1'
    )
    put(own, "max_restarts = 2\n[env]\nB = 2")
    resolved = resolve(tmp_path, JOB + "[env]\nC = 3", sites=[etc, own])
    assert {"A": "1", "B": "2", "C": "3"} == resolved.spec.env
    assert (2, 60.0, (f"{etc.parent}/ca.pem",), {"gpus": 1}) == (
        resolved.spec.max_restarts,
        resolved.spec.stop_grace,
        resolved.spec.files,
        resolved.spec.scheduler_settings,
    )
    assert (f"{own}:1", f"{etc}:2") == (resolved.sources["max_restarts"], resolved.sources["stop_grace"])


def test_a_site_file_cannot_set_values_of_one_job(tmp_path: Path, etc: Path) -> None:
    """Names, roles and commands belong to one job; all errors in a site file are reported."""
    put(
        etc,
        'name = "x"\ncommand = "y"\nmax_restart = 1\nfinal = ["tsl", 3, "name", "roles", "roles.*.gpus"]\n'
        "[roles.worker]\n[limits]\ntotal_gpus = -1\ntotal_memory = 5\ntotal_cpu = 3\n",
    )
    belongs = "a site file cannot set this; set it in a job file."
    found = list_errors(tmp_path, JOB, sites=[etc])
    found.sort(key=lambda line: int(line.split(".toml:")[1].split(")")[0]))
    assert mention_each(
        found,
        (f"name ({etc}:1)", belongs),
        (f"command ({etc}:2)", belongs),
        (f"max_restart = 1 ({etc}:3)", "max_restarts"),
        (f'final[0] = "tsl" ({etc}:4)', "tls"),
        (f"final[1] = 3 ({etc}:4)", "tony settings --all"),
        (f'final[2] = "name" ({etc}:4)', "every job"),
        (f'final[3] = "roles" ({etc}:4)', "every job"),
        (f"roles ({etc}:5)", belongs),
        (f"limits.total_gpus = -1 ({etc}:7)", "minimum is 0"),
        (f"limits.total_memory = 5 ({etc}:8)", "5m", "5g", "MiB", "GiB"),
        (f"limits.total_cpu = 3 ({etc}:9)", "total_gpus"),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("final = 'tls'", 'final = "tls" (SITE:1): expected a list of keys: final = ["tls", "scheduler.name"].'),
        ("limits = 3", "limits = 3 (SITE:1): expected a table: write [limits] and below it total_gpus = 8."),
        ("tls = ", "SITE:1:7: not valid TOML: Invalid value."),
    ],
)
def test_a_site_file_may_be_wrong_as_a_whole(tmp_path: Path, etc: Path, text: str, expected: str) -> None:
    """Then no job is taken: its rules are not known."""
    put(etc, text)
    assert [expected.replace("SITE", str(etc))] == [
        line.replace(" (end of file)", "") for line in list_errors(tmp_path, JOB, sites=[etc])
    ]


def test_a_site_file_that_is_no_file_is_an_error(tmp_path: Path, etc: Path) -> None:
    """Only a missing one is passed over."""
    etc.mkdir(parents=True)
    assert mention_each(list_errors(tmp_path, JOB, sites=[etc]), (etc,))
    assert "x" == resolve(tmp_path, JOB, sites=[tmp_path / "gone" / "x.toml", etc / "x" / "y.toml"]).spec.command


ATTEMPTS: list[tuple[str, dict[str, Any], str]] = [
    (
        'tls = "always"\nfinal = ["tls"]',
        {"text": 'tls = "auto"'},
        'tls = "auto" (job.toml:2): it is final on this site at "always" (SITE:1). Remove it here.',
    ),
    (
        'final = ["tls"]',
        {"text": 'tls = "always"'},
        'tls = "always" (job.toml:2): it is final on this site at "auto" (SITE:1). Remove it here.',
    ),
    (
        'max_restarts = 1\nfinal = ["max_restarts"]',
        {"sets": ["max_restarts=5"]},
        "max_restarts = 5 (--set): it is final on this site at 1 (SITE:1). Remove it here.",
    ),
    (
        'max_restarts = 1\nfinal = ["max_restarts"]',
        {"environ": {"TONY_SET_MAX_RESTARTS": "5"}},
        "max_restarts = 5 (env TONY_SET_MAX_RESTARTS): it is final on this site at 1 (SITE:1). Remove it here.",
    ),
    (
        'max_restarts = 1\nfinal = ["max_restarts"]',
        {"overrides": {"max_restarts": 5}},
        "max_restarts = 5 (argument): it is final on this site at 1 (SITE:1). Remove it here.",
    ),
    (
        'max_restarts = 1\nfinal = ["max_restarts"]',
        {"overrides": JobSpec(max_restarts=5)},
        "max_restarts = 5 (argument): it is final on this site at 1 (SITE:1). Remove it here.",
    ),
    (
        'stop_grace = "5s"\nfinal = ["stop_grace"]',
        {"text": '[roles.a]\nstop_grace = "6s"'},
        'roles.a.stop_grace = "6s" (job.toml:3): it is final on this site at "5s" (SITE:1). Remove it here.',
    ),
    (
        'final = ["roles.*.gpus"]',
        {"text": "[roles.a]\ngpus = 1"},
        "roles.a.gpus = 1 (job.toml:3): it is final on this site at 0 (SITE:1). Remove it here.",
    ),
    (
        'final = ["roles.<role>.gpus"]',
        {"text": "[roles.a]\ngpus = 1"},
        "roles.a.gpus = 1 (job.toml:3): it is final on this site at 0 (SITE:1). Remove it here.",
    ),
    (
        'final = ["env.PROXY"]\n[env]\nPROXY = "p"',
        {"text": '[roles.a]\nenv.PROXY = "q"'},
        'roles.a.env.PROXY = "q" (job.toml:3): it is final on this site at "p" (SITE:3). Remove it here.',
    ),
    (
        'final = ["env"]\n[env]\nHF_TOKEN = "secret-1"',
        {"text": '[env]\nHF_TOKEN = "secret-2"'},
        "env.HF_TOKEN = *** (job.toml:3): it is final on this site (SITE:3). Remove it here.",
    ),
    (
        'final = ["env"]',
        {"text": '[env]\nA = "1"'},
        'env.A = "1" (job.toml:3): it is final on this site (SITE:1). Remove it here.',
    ),
    (
        'final = ["scheduler"]\n[scheduler.local]\ngpus = 2',
        {"text": "[scheduler.local]\ngpus = 3"},
        "scheduler.local.gpus = 3 (job.toml:3): it is final on this site at 2 (SITE:3). Remove it here.",
    ),
    (
        'python = "/usr/bin/python3"\nfinal = ["python"]',
        {"sets": ["python=python3"]},
        'python = "python3" (--set): it is final on this site at "/usr/bin/python3" (SITE:1). Remove it here.',
    ),
]


@pytest.mark.parametrize(("site", "job", "expected"), ATTEMPTS)
def test_final_values_cannot_be_overridden(
    tmp_path: Path, etc: Path, site: str, job: dict[str, Any], expected: str
) -> None:
    """From whatever place; the message names both."""
    put(etc, site)
    text = JOB + job.pop("text", "")
    assert [expected.replace("SITE", str(etc))] == list_errors(tmp_path, text, sites=[etc], **job)


def test_saying_the_same_again_is_no_attempt(tmp_path: Path, etc: Path) -> None:
    """A final value may be repeated, in any spelling."""
    put(etc, 'stop_grace = "60s"\nfinal = ["stop_grace", "tls", "roles.*.gpus", "env"]\n[env]\nA = 1')
    text = JOB + 'stop_grace = "1m"\ntls = "auto"\nenv = { A = "1" }\n[roles.a]\ngpus = 0\nstop_grace = "60000ms"'
    assert 60.0 == resolve(tmp_path, text, sites=[etc]).spec.stop_grace


def test_every_override_of_a_final_value_is_reported(tmp_path: Path, etc: Path) -> None:
    """Also one that a later place would have overridden."""
    put(etc, 'tls = "always"\nfinal = ["tls"]')
    found = list_errors(tmp_path, JOB + 'tls = "auto"', sets=['tls="auto"'], sites=[etc])
    assert ['tls = "auto" (job.toml:2)', 'tls = "auto" (--set)'] == [line.partition(": it is")[0] for line in found]


def test_the_users_own_site_file_cannot_loosen_the_machines(tmp_path: Path, etc: Path, own: Path) -> None:
    """It may set other defaults and be stricter, no more."""
    put(etc, 'tls = "always"\nfinal = ["tls"]\n[limits]\ntotal_instances = 3')
    put(own, 'tls = "auto"\nfinal = ["max_restarts"]\n[limits]\ntotal_instances = 100')
    text = JOB + "max_restarts = 1\n[roles.a]\ninstances = 4"
    assert mention_each(
        list_errors(tmp_path, text, sites=[etc, own]),
        (f'tls = "auto" ({own}:1)', "always", f"{etc}:1"),
        ("max_restarts = 1 (job.toml:2)", f"0 ({own}:2)"),
        ("roles (job.toml:3)", over("4 tasks in total (a 4 × 1)", "3", "total_instances", f"{etc}:4")),
    )


def over(asked: str, allowed: str, limit: str, where: str) -> str:
    """What is said of a limit that is exceeded."""
    return f"the job requests {asked}, and this site allows {allowed} ({limit}, {where}). Request less."


LIMITS = "[limits]\ntotal_instances = 4\ntotal_gpus = 4\ntotal_memory = '4g'\n"


def test_limits_are_for_the_whole_job(tmp_path: Path, etc: Path) -> None:
    """Just as much as is allowed passes; more is told with the arithmetic."""
    put(etc, LIMITS)
    memory = "total_memory"
    fits = "[roles.a]\ninstances = 2\ngpus = 1\n[roles.b]\ninstances = 2\ngpus = 1"
    assert 4 == len(resolve(tmp_path, JOB + fits, sites=[etc]).spec.task_ids)
    text = JOB + fits.replace("gpus = 1", "gpus = 2\nmemory = '1.5g'").replace("instances = 2", "instances = 3")
    assert [
        f"roles (job.toml:2): {over('6 tasks in total (a 3 × 1 + b 3 × 1)', '4', 'total_instances', f'{etc}:2')}",
        f"roles (job.toml:2): {over('12 GPUs in total (a 3 × 2 + b 3 × 2)', '4', 'total_gpus', f'{etc}:3')}",
        f"roles (job.toml:2): {over('9g of memory in total (a 3 × 1.5g + b 3 × 1.5g)', '4g', memory, f'{etc}:4')}",
    ] == list_errors(tmp_path, text, sites=[etc])


def test_a_job_of_one_task_has_limits_too(tmp_path: Path, etc: Path) -> None:
    """`main:0` counts like any other task."""
    put(etc, "[limits]\ntotal_instances = 0")
    assert [
        f"roles (job.toml): {over('1 task in total (main 1 × 1)', '0', 'total_instances', f'{etc}:2')}",
    ] == list_errors(tmp_path, JOB, sites=[etc])


# --- the application master -------------------------------------------------------------------------------------------


def test_the_am_finds_nothing_wrong_with_a_job_that_the_client_passed(tmp_path: Path, etc: Path, own: Path) -> None:
    put(
        etc,
        'tls = "always"\nregistration_timeout = "off"\nallocation_timeout = "off"\nfiles = []\n'
        'final = ["tls", "env", "roles.*.gpus", "scheduler", "registration_timeout", '
        '"allocation_timeout", "port_range"]\n'
        "[env]\nA = 1\n[scheduler.local]\ngpus = 2\n" + LIMITS,
    )
    put(own, 'max_restarts = 3\nfinal = ["max_restarts"]')
    spec = resolve(tmp_path, JOB + "[roles.a]\ninstances = 2", sites=[etc, own]).spec
    assert [] == check_again(spec, [etc, own])
    assert [] == check_again(spec, [tmp_path / "gone.toml"])


def test_the_am_enforces_the_rules_of_its_own_site(tmp_path: Path, etc: Path) -> None:
    """Against a job that was resolved on another machine, or tampered with on its way."""
    put(
        etc,
        'tls = "always"\nfinal = ["tls", "env", "roles.*.gpus", "scheduler.local", "job_timeout"]\n'
        'job_timeout = "1h"\n[env]\nPROXY = "p"\n[limits]\ntotal_memory = "1g"\n[scheduler.local]\ngpus = 2\n',
    )
    spec = JobSpec(
        command="x",
        tls=TlsMode.AUTO,
        env={"B": "1"},
        roles={"a": Role(resources=Resources(gpus=3, memory=2 * GIB))},
        timeouts=Timeouts(job=None),
    )
    assert mention_each(
        [str(problem) for problem in check_again(spec, [etc])],
        ('job_timeout = "off" (job)', "1h", f"{etc}:3"),
        ('tls = "auto" (job)', "always", f"{etc}:1"),
        ('env.B = "1" (job)', f"{etc}:2"),
        ("roles.a.gpus = 3 (job)", f"0 ({etc}:2)"),
        ("env.PROXY", f"{etc}:5"),
        ("scheduler.local.gpus", f"{etc}:9"),
        ("roles (job)", over("2g of memory in total (a 1 × 2g)", "1g", "total_memory", f"{etc}:7")),
    )
    mended = replace(
        spec,
        tls=TlsMode.ALWAYS,
        env={"PROXY": "p"},
        roles={"a": Role()},
        timeouts=Timeouts(job=3600.0),
        scheduler_settings={"gpus": 2},
    )
    assert [] == check_again(mended, [etc])


def test_the_am_reports_an_unreadable_site_file(etc: Path) -> None:
    """Its rules are not skipped."""
    put(etc, "tls = ")
    assert 1 == len(check_again(JobSpec(command="x"), [etc]))


def test_the_check_needs_nothing_but_the_standard_library(etc: Path) -> None:
    """The application master runs without site-packages."""
    put(etc, 'tls = "always"\nfinal = ["tls"]\n[limits]\ntotal_gpus = 1')
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tony.config.files.site_policy import check_again
from tony.model.job_spec import JobSpec
assert 1 == len(check_again(JobSpec(command="x"), [Path(sys.argv[2])]))
assert not any("site-packages" in path for path in sys.path)
"""
    root = str(Path(tony.__file__).parent.parent)
    subprocess.run([sys.executable, "-I", "-S", "-c", code, root, str(etc)], check=True, timeout=60)
