"""Tests of `tony.executor.program.spawn_errors`: one sentence for each way in which a program cannot be started."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tony.executor.program.spawn_errors import describe_spawn_error


@pytest.fixture
def folder(tmp_path: Path) -> Path:
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
def test_each_spawn_error_is_explained(folder: Path, program: str, expected: str) -> None:
    """With the real answers of the kernel."""
    path = str(folder.parent / "bin")
    with pytest.raises(OSError, match=re.escape("[Errno ")) as raised:
        subprocess.run([program], cwd=folder, env={"PATH": path}, check=False)
    message = describe_spawn_error(program, raised.value, str(folder), path)
    assert re.fullmatch(re.escape(expected.format(folder=folder)).replace("…", ".*"), message)


def test_an_unknown_error_is_reported_unchanged(folder: Path) -> None:
    """And too much for Linux has words of its own."""
    with pytest.raises(OSError, match="too long") as raised:
        subprocess.run(["true", *20 * [120_000 * "x"]], check=False)
    assert "cannot start true: command and environment are too long together for Linux" == describe_spawn_error(
        "true", raised.value, str(folder), "/bin"
    )
    assert "cannot start x: boom" == describe_spawn_error("x", ValueError("boom"), str(folder), "/bin")
