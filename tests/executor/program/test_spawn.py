"""What a command begins with can be run, with or without its execute bit."""

from __future__ import annotations

import re
import stat
import subprocess
from pathlib import Path

import pytest

from tony.executor.program.spawn import describe_spawn_error, make_executable


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


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A working directory, and in `bin` what is on PATH."""
    (tmp_path / "work" / "folder").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    scripts = {
        "no-such-interpreter": "#!/no/such/interpreter -x\n",
        "windows": "#!/bin/sh\r\necho hello\r\n",
        "no-first-line": "echo hello\n",
        "empty-first-line": "#!\n",
        "closed-interpreter": f"#!{tmp_path}/work/closed\n",
    }
    for name, text in scripts.items():
        (tmp_path / "work" / name).write_text(text)
        (tmp_path / "work" / name).chmod(0o700)
        (tmp_path / "bin" / f"{name}-on-path").symlink_to(tmp_path / "work" / name)
    (tmp_path / "work" / "closed").write_text("#!/bin/sh\n")
    (tmp_path / "work" / "closed").chmod(0o600)
    (tmp_path / "work" / "dangling").symlink_to("nowhere")
    return tmp_path / "work"


#: What is to be run, and below it what is said; `…` stands for any words.
TABLE = r"""
nonesuch
command not found: nonesuch (not on PATH)
echo $X
command not found: echo $X (not on PATH; no shell reads … bash -c '...')
windows
command not found: windows (not on PATH; the one in the working directory is ./windows)
./nonesuch
command not found: ./nonesuch (no such file in the working directory)
/no/such
command not found: /no/such (no such file)
/etc/passwd/x
command not found: /etc/passwd/x (no such file)
./folder
not executable: ./folder (it is a directory)
./closed
not executable: ./closed (permission denied; … chmod +x)
./closed-interpreter
not executable: ./closed-interpreter (permission denied; … {folder}/closed, …)
./no-first-line
not executable: ./no-first-line (… #! …)
./empty-first-line
not executable: ./empty-first-line (… #! …)
./no-such-interpreter
cannot start ./no-such-interpreter: … /no/such/interpreter, which does not exist
no-such-interpreter-on-path
cannot start no-such-interpreter-on-path: … /no/such/interpreter, which does not exist
./windows
cannot start ./windows: … Windows … \r …
./dangling
cannot start ./dangling: … missing (a dangling symlink, …)
""".strip().splitlines()
CASES = [
    *zip(TABLE[::2], TABLE[1::2], strict=True),
    (5000 * "x", f"command not found: {200 * 'x'}… (the name is too long for the file system)"),
]


@pytest.mark.parametrize(("program", "expected"), CASES, ids=[program[:30] for program, _ in CASES])
def test_each_spawn_error_is_explained(programs: Path, program: str, expected: str) -> None:
    """With the real answers of the kernel."""
    path = str(programs.parent / "bin")
    with pytest.raises(OSError, match=re.escape("[Errno ")) as raised:
        subprocess.run([program], cwd=programs, env={"PATH": path}, check=False)
    message = describe_spawn_error(program, raised.value, str(programs), path)
    assert re.fullmatch(re.escape(expected.format(folder=programs)).replace("…", ".*"), message)


def test_an_unknown_error_is_reported_unchanged(programs: Path) -> None:
    """And too much for Linux has words of its own."""
    with pytest.raises(OSError, match="too long") as raised:
        subprocess.run(["true", *20 * [120_000 * "x"]], check=False)
    assert "cannot start true: command and environment are too long together for Linux" == describe_spawn_error(
        "true", raised.value, str(programs), "/bin"
    )
    assert "cannot start x: boom" == describe_spawn_error("x", ValueError("boom"), str(programs), "/bin")
