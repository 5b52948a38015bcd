"""Whether a command prepares an application master before it knows its job; and a Ctrl-C that Python drops."""

from __future__ import annotations

import subprocess
import sys
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


#: A command during which a signal arrives in a finalizer.
INTERRUPTED = """
import signal, sys, time
from tony.cli import main, startup
from tony.cli.submission_signals import clean_exit_on_signals

class Finalized:
    def __del__(self):
        signal.raise_signal({number})

def run():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with clean_exit_on_signals():
        Finalized()
        time.sleep(60)

main.main = run
sys.exit(startup.main())
"""


@pytest.mark.parametrize("number", [2, 15])
def test_an_interrupt_in_a_finalizer_is_not_lost(number: int) -> None:
    run = [sys.executable, "-c", INTERRUPTED.format(number=number)]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=50)
    assert (done.returncode, done.stderr) == (128 + number, "")


def test_other_errors_in_finalizers_are_shown() -> None:
    program = INTERRUPTED.format(number=2).replace("signal.raise_signal(2)", "1 / 0").replace("time.sleep(60)", "pass")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0
    assert "ZeroDivisionError" in done.stderr
