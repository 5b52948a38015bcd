"""From what was seen of a try to its reason and sentence."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.facts import mentions
from tony.executor.program.exit_classification import ExitObservation, ProcessExit, classify_exit, explain_missing_file
from tony.linux.process import format_signal
from tony.model.program_exit import ExitReason
from tony.model.staged_files import LeftOut

GOOD = ProcessExit(process=0, code=0, signum=None, at=1.0)
BAD = ProcessExit(process=1, code=3, signum=None, at=2.0)
SEGV = ProcessExit(process=0, code=None, signum=signal.SIGSEGV, at=1.0)
KILLED = ProcessExit(process=2, code=None, signum=signal.SIGKILL, at=3.0)
LIMIT = "ran out of memory (limit 1g): 1 process killed by the kernel"
TAKEN = "port 5000, reserved for this task, was taken by process 7 (python)"


@pytest.mark.parametrize(
    ("seen", "reason", "message"),
    [
        ({"ends": [GOOD]}, ExitReason.EXITED, ""),
        ({"ends": [SEGV]}, ExitReason.EXITED, ""),
        ({"ends": [BAD], "memory": LIMIT}, ExitReason.MEMORY, LIMIT),
        ({"ends": [GOOD], "memory": LIMIT}, ExitReason.EXITED, f"exit code 0; {LIMIT}"),
        ({"ends": [BAD], "collision": TAKEN}, ExitReason.PORT_COLLISION, TAKEN),
        ({"ends": [BAD], "collision": TAKEN, "memory": LIMIT}, ExitReason.MEMORY, LIMIT),
        ({"ends": [SEGV], "stopped": True}, ExitReason.STOPPED, "stopped"),
        ({"ends": [GOOD], "stopped": True, "stop_reason": "killed"}, ExitReason.STOPPED, "stopped (killed)"),
        (
            {"ends": [KILLED], "stopped": True, "forced_after": 15.0},
            ExitReason.STOPPED,
            "stopped; it did not exit within 15 s of SIGTERM and was killed",
        ),
        (
            {"ends": [KILLED], "stopped": True, "forced_after": 0.0},
            ExitReason.STOPPED,
            "stopped; SIGKILL followed SIGTERM at once",
        ),
        (
            {"ends": [GOOD, BAD, KILLED]},
            ExitReason.EXITED,
            "exit code 3; the process with LOCAL_RANK 1 was the first of 3 to fail",
        ),
        ({"ends": [BAD], "missing": "a was left out"}, ExitReason.EXITED, "exit code 3; a was left out"),
        ({"ends": [BAD], "missing": "a was left out", "stopped": True}, ExitReason.STOPPED, "stopped"),
        ({"ends": [BAD], "loss": "5 bytes lost"}, ExitReason.EXITED, "exit code 3; 5 bytes lost"),
        ({"ends": [SEGV], "undead": [7, 8]}, ExitReason.EXITED, "killed by SIGSEGV; could not be killed: 7, 8"),
        (
            {"ends": [GOOD], "left": ["sleep"]},
            ExitReason.EXITED,
            "exit code 0; it left one process running, which was killed (sleep): the task ends when its command exits",
        ),
        (
            {"ends": [BAD], "left": [*5 * ["python"], "sleep"]},
            ExitReason.EXITED,
            (
                "exit code 3; it left 6 processes running, which were killed (python, ...): "
                "the task ends when its command exits"
            ),
        ),
        ({"ends": [BAD], "through_shell": True}, ExitReason.EXITED, ""),
        (
            {"ends": [ProcessExit(process=0, code=139, signum=None, at=1.0)], "through_shell": True},
            ExitReason.EXITED,
            "exit code 139 (a process of its shell was killed by SIGSEGV, or exited with this code)",
        ),
        ({"ends": [ProcessExit(process=0, code=139, signum=None, at=1.0)]}, ExitReason.EXITED, ""),
        (
            {"ends": [ProcessExit(process=0, code=255, signum=None, at=1.0)], "through_shell": True},
            ExitReason.EXITED,
            "",
        ),
    ],
)
def test_judge(seen: dict[str, Any], reason: ExitReason, message: str) -> None:
    """Our own stop comes before everything, memory before ports; plain ends need no words."""
    judged = classify_exit(ExitObservation(**seen))
    assert (reason, message) == (judged.reason, judged.message)


def test_first_failure_decides() -> None:
    """Of several processes the first one that failed is the try's end; if none did, the last one."""
    assert classify_exit(ExitObservation(ends=[GOOD, BAD, KILLED])).end is BAD
    assert classify_exit(ExitObservation(ends=[BAD, GOOD])).end is BAD
    assert classify_exit(ExitObservation(ends=[GOOD, GOOD])).end is GOOD


def test_signals_have_names() -> None:
    assert format_signal(9) == "SIGKILL"
    assert format_signal(signal.SIGRTMIN + 3) == "SIGRTMIN+3"
    assert format_signal(32) == "signal 32"


WORK = "/state/jobs/j/work/worker-0"
LEFT_OUT = LeftOut(ignore_file=".gitignore", files=2, folders=1, paths=("data/", "demo/train/a.train", "b.dat"))


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'b.dat'", "b.dat"),
        ("cat: b.dat: No such file or directory", "b.dat"),
        ("cat: ./b.dat: No such file or directory", "b.dat"),
        (f"FileNotFoundError: [Errno 2] No such file or directory: '{WORK}/data/a file.csv'", "data/"),
        ("Opening ../train/a.train failed: No such file or directory", "demo/train/a.train"),
        ("FileNotFoundError: ./data/x.bin not found.", "data/"),
        ("ls: cannot access 'data': No such file or directory", "data/"),
        ("dataset data/x.bin not found", "data/"),
        ("error: b.dat does not exist", "b.dat"),
    ],
)
def test_the_file_is_named(line: str, path: str) -> None:
    """Whether the path is absolute, relative, or relative to a folder below."""
    said = explain_missing_file(["Traceback", line, "after it"], LEFT_OUT, WORK)
    assert mentions(said, path, ".gitignore", "gitignore=false")


@pytest.mark.parametrize(
    "line",
    [
        "cat: c.dat: No such file or directory",
        "cat: /data/x: No such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: '/elsewhere/b.dat'",
        "reading b.dat",
        "FileNotFoundError: ''",
        "No such file or directory: ../..",
        "column data does not exist",
        "KeyError: 'data' not found in batch",
    ],
)
def test_other_lines_mean_nothing(line: str) -> None:
    """Other files, files elsewhere, and lines that do not speak of a missing file."""
    assert explain_missing_file([line], LEFT_OUT, WORK) == ""


def test_no_hint_without_ignored_files(tmp_path: Path) -> None:
    assert explain_missing_file(["cat: b.dat: No such file or directory"], None, str(tmp_path)) == ""


def test_the_working_directory_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    line = f"No such file or directory: '{tmp_path}/real/b.dat'"
    assert explain_missing_file([line], LEFT_OUT, str(tmp_path / "link")).startswith("b.dat ")
