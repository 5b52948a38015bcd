"""Anonymous files are found among open files that come and go."""

from __future__ import annotations

import subprocess
import sys

from tony.linux.anonymous_files import find_open_file

#: Keeps one anonymous file open, and opens and closes others all the time.
PROGRAM = """
import os
kept = os.memfd_create("kept")
os.dup2(kept, 200)  # behind the others in the list
os.close(kept)
print("ready", flush=True)
while True:
    others = [os.open("/dev/null", os.O_RDONLY) for _ in range(50)]
    for each in others:
        os.close(each)
"""


def test_files_that_are_closed_meanwhile_hide_no_other_one() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            found = [find_open_file(process.pid, lambda name: name.startswith("/memfd:kept")) for _ in range(300)]
        finally:
            process.kill()
    assert all(found)
