"""A fork shows a name and an environment of its own."""

import json
import subprocess
import sys
from typing import Any

#: Forks, takes another identity in the fork, and prints what that one shows.
PROGRAM = """
import json, os, sys
from tony.linux import process_identity
from tony.linux.process import has_marker
if os.fork() == 0:
    process_identity.assume(sys.argv[1], json.loads(sys.argv[2]))
    shown = lambda name: open(f"/proc/self/{name}", "rb").read().rstrip(b"\\0").decode()
    child = os.popen("env | grep -v ^_= | sort").read().split()
    print(json.dumps({"title": shown("cmdline"), "environ": shown("environ"), "os": dict(os.environ), "child": child,
                      "marked": has_marker(os.getpid(), b"MARK=here/")}), flush=True)
    os._exit(0)
os.wait()
"""


def assumed(title: str, environ: dict[str, str]) -> Any:
    own = {"PATH": "/usr/bin:/bin", "OLD": "x" * 500}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, title, json.dumps(environ)], env=own, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_all_is_replaced() -> None:
    """Title, /proc's environment, Python's own and that of children: nothing of the old ones is left."""
    environ = {"MARK": "here/", "PATH": "/usr/bin:/bin"}
    seen = assumed("tony.executor.main in /a/job", environ)
    assert seen["title"] == "tony.executor.main in /a/job"
    assert seen["environ"].split("\0") == ["MARK=here/", "PATH=/usr/bin:/bin"]
    assert seen["os"] == environ
    assert {"MARK=here/", "PATH=/usr/bin:/bin"} <= set(seen["child"])
    assert not [line for line in seen["child"] if line.startswith("OLD=")]
    assert seen["marked"]


def test_a_long_title_is_truncated_in_proc_only() -> None:
    """The kernel's memory has the size that it had at exec; the first variables are kept all the same."""
    environ = {"MARK": "here/", "PATH": "/usr/bin:/bin", "LONG": "y" * 5000}
    seen = assumed("t" * 100_000, environ)
    assert set(seen["title"]) == {"t"}
    assert seen["environ"].startswith("MARK=here/\0PATH=/usr/bin:/bin\0LONG=yyy")
    assert seen["os"]["LONG"] == "y" * 5000
    assert seen["marked"]
