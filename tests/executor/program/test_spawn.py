"""What a command begins with can be run, with or without its execute bit."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tony.executor.program.spawn import make_executable


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with two scripts that have lost their execute bits."""
    folder = tmp_path / "work"
    (folder / "bin").mkdir(parents=True)
    for name in ("bin/python", "train.sh"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o640)
    return folder


@pytest.mark.parametrize("command", ["bin/python train.py --lr 0.1", "  ./bin/python\n", "bin/../bin/python"])
def test_the_command_gets_its_execute_bits(folder: Path, command: str) -> None:
    """Those that go with its read bits; other files stay as they are."""
    make_executable(command, str(folder))
    assert (mode(folder / "bin/python"), mode(folder / "train.sh")) == (0o750, 0o640)


@pytest.mark.parametrize(
    "command",
    [
        "python head.py --address=`./train.sh`",
        'python head.py --address="$(./train.sh --short)"',
        "mkdir out && ./train.sh",
        "cat x | ./train.sh; true",
        "mkdir out\n  ./train.sh",
    ],
)
def test_first_words_of_further_commands_get_their_bits(folder: Path, command: str) -> None:
    make_executable(command, str(folder))
    assert (mode(folder / "bin/python"), mode(folder / "train.sh")) == (0o640, 0o750)


NOTHING = (
    "",
    " ",
    "train.sh",
    "bash ./train.sh",
    "./nowhere.sh",
    "./bin",
    "./\0",
    "'./train.sh'",
    "python x.py ./train.sh",
    "echo `cat ./train.sh`",
)
OUTSIDE = ("../other.sh", "./out.sh")


@pytest.mark.parametrize("command", [*NOTHING, *OUTSIDE])
def test_nothing_else_is_touched(folder: Path, command: str) -> None:
    """Neither what bash would not run by this word, nor anything outside the working directory."""
    other = folder.parent / "other.sh"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o640)
    (folder / "out.sh").symlink_to(other)
    make_executable(command, str(folder))
    assert {mode(each) for each in (other, folder / "train.sh", folder / "bin/python")} == {0o640}


def test_a_bit_of_another_is_enough(folder: Path) -> None:
    """What can be run stays as it is."""
    (folder / "train.sh").chmod(0o700)
    make_executable("./train.sh", str(folder))
    assert mode(folder / "train.sh") == 0o700
