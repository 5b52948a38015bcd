"""Modules from outside the package, as processes that see the standard library and tony only."""

import subprocess
from pathlib import Path

from tony.isolated_interpreter import command

MODULE = """
import sys

def main():
    print(sys.argv[1:], [path for path in sys.path if "site-packages" in path])
    return 4
"""


def test_a_module_runs_with_its_arguments_and_exit_code(tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(MODULE)
    argv = command("tony.testing.module_runner", str(tmp_path), "outside", "one", "two=2")
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (4, "['one', 'two=2'] []\n"), done.stderr
