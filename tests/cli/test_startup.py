"""Whether a command prepares an application master before it knows its job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tony.cli.startup import names_remote_scheduler


@pytest.mark.parametrize(
    ("arguments", "content", "expected"),
    [
        ((), '[scheduler]\nname = "kubernetes"\n', True),
        ((), '[scheduler]\nname = "local"\n', False),
        ((), '[scheduler.kubernetes]\nimage = "x"\n', False),
        ((), "scheduler = 3\n", False),
        ((), "no toml", False),
        (("--scheduler", "yarn"), "", True),
        (("--scheduler=yarn",), "", True),
        (("--scheduler", "local"), '[scheduler]\nname = "kubernetes"\n', False),
    ],
)
def test_jobs_of_other_schedulers_need_no_local_one(
    tmp_path: Path, arguments: tuple[str, ...], content: str, *, expected: bool
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(content)
    assert names_remote_scheduler(["submit", str(file), *arguments]) is expected


def test_arguments_of_a_program_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "model.toml"
    file.write_text('[scheduler]\nname = "yarn"\n')
    assert not names_remote_scheduler(["run", "-n", "2", "--", "python", "x.py", "--scheduler", "yarn", str(file)])
    assert not names_remote_scheduler(["run", "python", "train.py", "--scheduler", "cosine", str(file)])
