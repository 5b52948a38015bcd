"""Every error in a job file is told with its place, its value and the fix."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.config.jobs import list_errors, resolve
from tests.facts import mention_each, mentions
from tony.config.table.converted_settings import RESERVED_ENV
from tony.executor.program.program_environment import build_common_environment
from tony.frameworks.framework_interface import TaskView
from tony.model.ids import TaskId
from tony.model.setting_choices import DistributedMode

RUN = 'command = "python train.py"\n'

#: What is written below line 1, and all that is said about it.
CASES = [
    tuple(part.strip("\n") for part in case.split("\n--\n"))
    for case in (Path(__file__).parent / "job_file_errors.txt").read_text(encoding="utf-8").split("\n\n")[1:]
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text[:60] for text, _ in CASES])
def test_an_error_has_place_value_and_fix(tmp_path: Path, text: str, expected: str) -> None:
    """Each file has one error (or as many as it must), and no other is reported."""
    assert expected.split("\n") == list_errors(tmp_path, RUN + text)


def test_a_number_of_thousands_of_digits_is_not_printed(tmp_path: Path) -> None:
    """TOML has no bound on hexadecimal numbers; Python refuses to print them."""
    assert mention_each(
        list_errors(tmp_path, f"{RUN}max_restarts = 0x{'f' * 5000}"),
        ("max_restarts = a number of 20000 bits (job.toml:2)", "1000000"),
    )


def test_no_command_anywhere_is_an_error(tmp_path: Path) -> None:
    """A job of one task needs the job's command; without a file there is none to name."""
    expected = 'no command is set. Write command = "python train.py".'
    assert [f"command (job.toml): {expected}"] == list_errors(tmp_path, "")
    assert [f"command: {expected}"] == list_errors(tmp_path)


def test_an_empty_table_of_roles_is_a_job_of_one_task(tmp_path: Path) -> None:
    """It needs a command like any other; one whose only role has an impossible name is not complained about twice."""
    expected = 'no command is set. Write command = "python train.py".'
    assert [f"command (job.toml): {expected}"] == list_errors(tmp_path, "[roles]\n")
    assert [f"command (job.yaml): {expected}"] == list_errors(tmp_path, "roles:\n", name="job.yaml")
    assert ["roles.1"] == [line.split(" (")[0] for line in list_errors(tmp_path, "[roles.1]\ncommand = 'x'\n")]


def test_each_role_without_a_command_is_named(tmp_path: Path) -> None:
    """Roles need a command of their own when the job has none."""
    text = "[roles.a]\n[roles.b]\ncommand = 'run'\n[roles.c]\n"
    expected = 'no command: neither the role nor the job has one. Write command = "python train.py".'
    assert [f"roles.a (job.toml:1): {expected}", f"roles.c (job.toml:4): {expected}"] == list_errors(tmp_path, text)


def test_a_command_that_slipped_below_a_section_is_found(tmp_path: Path) -> None:
    """In TOML everything below [env] is a variable: the usual slip is told as what it is."""
    (found,) = list_errors(tmp_path, "[env]\nA = 1\ncommand = 'python train.py'\n")
    assert found.startswith("command (job.toml): no command: the one in job.toml:3 is in the table [env]; move it")


def test_an_argument_that_linux_cannot_take_is_refused_with_the_arithmetic(tmp_path: Path) -> None:
    """One argument or variable has at most 128 KiB."""
    long = "x" * 131_072
    cut = '"' + "x" * 78 + "…"
    text = f"command = '{long}'\n[env]\nA = '{long[5:]}'\nLONGER = '{long[5:]}'\nLIST = '{long[:-1]}'"
    most = "Linux allows at most 131071"
    assert mention_each(
        list_errors(tmp_path, text),
        (f"command = {cut} (job.toml:1)", "131072 bytes", most),
        (f"env.LONGER = {cut} (job.toml:4)", "131074 bytes", most),
        (f"env.LIST = {cut} (job.toml:5)", "131076 bytes", most),
    )


def test_all_errors_are_reported_in_file_order(tmp_path: Path) -> None:
    text = """\
name = 3
framework = "tensrflow"
max_restart = 2
command = "train --lr {params.lr}"
source = "nowhere"
files = ["gone.txt", 3, "x::/abs"]
stop_grace = 15
[roles.worker]
instances = 0
memory = "4096"
after = ["export", "chef"]
timeout_after = { group = "trainer" }
[roles."a b"]
gpus = -1
[roles.export]
after = { ended = ["worker"] }
[groups]
trainers = ["chief", "worker"]
[params]
LR = [1]
[scheduler]
name = "lcal"
local = { memory = 8 }
"""
    found = list_errors(tmp_path, text, sets=["stopgrace=1s", "=3"], params=["x"], environ={"TONY_SET_TLS": "no"})
    heads = [re.split(r"[:;] (?=[a-z`{\"/0-9])", line)[0] for line in found]
    assert [
        "name = 3 (job.toml:1)",
        'framework = "tensrflow" (job.toml:2)',
        "max_restart = 2 (job.toml:3)",
        'command = "train --lr {params.lr}" (job.toml:4)',
        'source = "nowhere" (job.toml:5)',
        "files[1] = 3 (job.toml:6)",
        'files[2] = "x::/abs" (job.toml:6)',
        'files[0] = "gone.txt" (job.toml:6)',
        "stop_grace = 15 (job.toml:7)",
        "roles.worker.instances = 0 (job.toml:9)",
        'roles.worker.memory = "4096" (job.toml:10)',
        'roles.worker.after[1] = "chef" (job.toml:11)',
        'roles.worker.after = ["export", "chef"] (job.toml:11)',
        "roles.worker.timeout_after (job.toml:12)",
        'roles.worker.timeout_after.group = "trainer" (job.toml:12)',
        'roles."a b" (job.toml:13)',
        "roles.a b.gpus".replace("a b", '"a b"') + " = -1 (job.toml:14)",
        'groups.trainers[0] = "chief" (job.toml:18)',
        "params.LR = [1] (job.toml:20)",
        'scheduler.name = "lcal" (job.toml:22)',
        "scheduler.local.memory = 8 (job.toml:23)",
    ] == [head for head in heads if "job.toml" in head]
    assert [
        '--set: "=3": write --set key=value, such as --set max_restarts=2.',
        '--param: "x": write --param name=value, such as --param lr=0.1.',
    ] == [line for line in found if ": write --" in line]
    assert mentions(found, 'tls = "no" (env TONY_SET_TLS)', "auto", "always")
    assert mentions(found, 'stopgrace = "1s" (--set)', "stop_grace")
    assert 25 == len(found)


@pytest.mark.parametrize("text", ["params:\n  flag: true\n", "params: [1]\n", "params: 1\n"])
def test_an_invalid_parameter_is_reported_once(tmp_path: Path, text: str) -> None:
    """Its placeholder is no second error."""
    found = list_errors(tmp_path, f"command: run {{params.flag}}\n{text}", name="job.yaml")
    assert 1 == len(found)
    assert "{params.flag}" not in found[0]


@pytest.mark.parametrize("name", sorted(RESERVED_ENV))
def test_a_variable_that_tony_sets_is_refused_wherever_it_is_set(tmp_path: Path, name: str) -> None:
    """It would be lost without a word: the executor's own value wins."""
    expected = [
        f"env.{name} (--set): {RESERVED_ENV[name]}",
        f"roles.worker.env.{name} (job.toml:3): {RESERVED_ENV[name]}",
    ]
    text = f"{RUN}[roles.worker.env]\n{name} = '1'\n"
    assert expected == sorted(list_errors(tmp_path, text, sets=[f"env.{name}=9"]))


def test_every_variable_that_all_programs_get_is_reserved() -> None:
    """The list is that of the frameworks' common ground."""
    view = TaskView(
        job_id="job-1",
        task=TaskId("worker", 0),
        session=2,
        attempt=1,
        try_=1,
        instances={"worker": 1},
        procs={"worker": 1},
        chief=TaskId("worker", 0),
        num_tasks=1,
        mode=DistributedMode.GANG,
        address="localhost:1",
        tb_port=6006,
    )
    assert build_common_environment(view).keys() <= RESERVED_ENV.keys()


def test_a_misspelled_parameter_on_the_command_line(tmp_path: Path) -> None:
    text = "command = 'train {params.lr} {params.out}'\n[params]\nlr = 1\nspare = 2\n"
    (unknown,) = list_errors(tmp_path, text, params=["lrr=1", "out=x"])
    assert unknown.startswith('params.lrr = "1" (--param): ')
    assert "did you mean `lr`?" in unknown
    (note,) = resolve(tmp_path, text, params=["out=x"]).notes
    assert (note.key, note.source) == ("params.spare", "job.toml:4")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("scheduler.yarn.quee", "did you mean `scheduler.yarn.queue`?"),
        ("roles.worker.cpus", "did you mean `roles.worker.vcores`?"),
        ("memory", "`memory` is a setting of a role: write `roles.NAME.memory`."),
        ("memry", "did you mean `roles.NAME.memory`, a setting of a role?"),
        ("roles.worker.framework", "`framework` is a setting of the job: write `framework`."),
    ],
)
def test_the_command_line_and_variables_need_the_full_key(tmp_path: Path, given: str, hint: str) -> None:
    """There is no section above that would complete it."""
    text = RUN + "[roles.worker]\n"
    variable = "TONY_SET_" + given.upper().replace(".", "__")
    for more in ({"sets": [f"{given}=1"]}, {"environ": {variable: "1"}}):
        (found,) = list_errors(tmp_path, text, **more)
        assert found.endswith(f"unknown key; {hint}")


def test_a_misspelled_role_on_the_command_line(tmp_path: Path) -> None:
    text = RUN + "[roles.worker]\n"
    for more in ({"sets": ["roles.wroker.memory=1g"]}, {"environ": {"TONY_SET_ROLES__WROKER__MEMORY": "1g"}}):
        (found,) = list_errors(tmp_path, text, **more)
        assert found.startswith("roles.wroker (")
        assert "did you mean `worker`?" in found
    for other in ("roles.evaluator.memory=1g", "roles.worker2.command=python other.py"):
        resolve(tmp_path, text, sets=[other])
