"""Where processes wait, as the kernel says it."""

import subprocess
import sys

from tony.linux.process import command_of, wait_channel


def test_a_sleeping_process_shows_its_wait_channel() -> None:
    """State, name and, where that is known, the place; each thread a line of its own."""
    code = (
        "import threading, time\n"
        "for _ in range(30): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code + "print(1, flush=True)\ntime.sleep(600)"], stdout=subprocess.PIPE
    ) as program:
        assert program.stdout
        program.stdout.readline()
        lines = [line for line in wait_channel(program.pid).splitlines() if not line.startswith(" ")]
        program.kill()
    assert len(lines) == 21
    assert all(line.startswith("thread ") for line in lines[:20])
    assert sum("sleeping" in line for line in lines) >= 15
    assert lines[-1] == "and 11 more threads"


def test_a_process_that_is_gone_has_no_wait_channel() -> None:
    assert wait_channel((1 << 22) + 1) == ""
    assert command_of((1 << 22) + 1) == "[?]"


def test_a_command_line_is_one_line() -> None:
    code = "print(1, flush=True)\nimport time\n\ntime.sleep(600)"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE) as program:
        assert program.stdout
        program.stdout.readline()
        said = command_of(program.pid)
        program.kill()
    assert said == f"{sys.executable} -S -c print(1, flush=True) import time time.sleep(600)"
