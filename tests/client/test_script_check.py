"""A script that is certainly missing is reported before the submission, and no other one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tony.client.script_check import find_missing_scripts, find_script
from tony.config.load import load


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python train.py --epochs 3", "train.py"),
        ("OMP_NUM_THREADS=1 python3.11 -u -O lib/train.py", "lib/train.py"),
        (("python3", "./train.py"), "train.py"),
        ("./run.sh 3", "run.sh"),
        ("cd lib && python train.py", None),
        ("python -m train", None),
        ("python -X dev train.py", None),
        ("python {params.script}.py", None),
        ("python train.py --data {params.data}", "train.py"),
        ("python /opt/train.py", None),
        ("python ../train.py", None),
        ("torchrun train.py", None),
        ("python 'train.py", None),
    ],
)
def test_scripts_of_plain_commands(command: str | tuple[str, ...], script: str | None) -> None:
    assert find_script(command) == script


def find(tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "src" / "lib").mkdir(parents=True, exist_ok=True)
    (tmp_path / "src" / "train.py").touch()
    (tmp_path / "job.toml").write_text(text)
    return [str(problem) for problem in find_missing_scripts(load(tmp_path / "job.toml", site_files=()))]


def test_a_missing_script(tmp_path: Path) -> None:
    """The nearest name is suggested; a command that all roles share is reported once."""
    roles = "[roles.a]\n[roles.b]\n[roles.c]\ncommand = 'python train.py'\n"
    (found,) = find(tmp_path, f'source = "src"\ncommand = "python trian.py"\n{roles}')
    assert found.startswith(f'command = "python trian.py" ({tmp_path}/job.toml:2): trian.py is not in source')
    assert found.endswith("did you mean train.py?")
    (found,) = find(tmp_path, 'command = "python train.py"\n')
    assert 'Write source = "."' in found


@pytest.mark.parametrize(
    "text",
    [
        'source = "src"\ncommand = "python train.py"',
        'source = "src"\ncommand = "python made.py"\nfiles = ["/etc/hosts::made.py"]',
        'source = "src"\ncommand = "python made/x.py"\nfiles = ["/etc/made.zip#archive#optional", "hdfs://a/b::made"]',
        'command = "python made.py"\nfiles = ["hdfs://a/folder"]',
        'source = "src.zip"\ncommand = "python made.py"',
        'source = "src"\n[roles.worker]\ncommand = "python made.py"\nimage = "python:3.12"',
    ],
)
def test_what_may_exist_is_not_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / "src.zip").touch()
    assert find(tmp_path, text) == []
