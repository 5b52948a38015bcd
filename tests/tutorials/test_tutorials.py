"""Each tutorial leads to its result, with the files and commands of its page."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import lab as lab
from tests.e2e.lab import Lab, until
from tests.framework_envs import DEBIAN_PYTHON, has_torch
from tests.tutorials.page import FOLDER, follow, section_of_readme, tutorial

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def pytorch(lab: Lab) -> dict[str, str]:
    """The environment of commands where `python` has PyTorch."""
    if not has_torch():
        pytest.skip(f"{DEBIAN_PYTHON} has no torch (Debian's python3-torch)")
    folder = lab.root / "bin"
    folder.mkdir()
    (folder / "python").symlink_to(DEBIAN_PYTHON)
    return {**lab.env, "PATH": f"{folder}:{lab.env['PATH']}"}


@pytest.mark.framework
def test_own_pytorch_script_of_the_readme(lab: Lab, pytorch: dict[str, str]) -> None:
    follow(section_of_readme("Your own PyTorch script in three minutes"), lab.root / "tutorial", pytorch, {})
    reports = [lab.status(job) for job in lab.jobs()]
    assert [("train", "succeeded"), ("first", "succeeded")] == [(each["name"], each["state"]) for each in reports]


@pytest.mark.framework
def test_resume_after_a_crash(lab: Lab, pytorch: dict[str, str]) -> None:
    follow(tutorial("1-resume-after-a-crash"), lab.root / "tutorial", pytorch, {})
    report = lab.status("last")
    assert (report["state"], report["session"]) == ("succeeded", 2)


def test_find_a_hang(lab: Lab) -> None:
    def one_hangs() -> bool:
        rows = json.loads(lab.tony("top", "last", "--json").stdout)["tasks"]
        steps = {row["task"]: row["step"] or 0 for row in rows}
        return bool(steps["worker:1"] == 20 and steps["worker:0"] > 40)

    waits = {
        "tony top": lambda: until(one_hangs, "worker:1 stays at step 20"),
        "tony submit job.toml --param steps=60": lambda: lab.wait(lab.jobs()[0], "killed"),
    }
    follow(tutorial("2-find-a-hang"), lab.root / "tutorial", lab.env, waits)
    assert ["killed", "succeeded"] == [lab.status(job)["state"] for job in lab.jobs()]


def test_move_from_torchrun_or_slurm(lab: Lab) -> None:
    follow(tutorial("3-move-from-torchrun-or-slurm"), lab.root / "tutorial", lab.env, {})
    assert {"succeeded"} == {lab.status(job)["state"] for job in lab.jobs()}
    assert len(lab.jobs()) == 3


def test_move_from_linkedin_tony(lab: Lab) -> None:
    follow(tutorial("4-move-from-linkedin-tony"), lab.root / "tutorial", lab.env, {})
    assert lab.status("last")["state"] == "succeeded"


def test_every_tutorial_is_tested() -> None:
    tested = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    pages = {path.stem[2:] for path in FOLDER.glob("[0-9]-*.md")}
    assert len(pages) == 4
    assert pages <= tested
