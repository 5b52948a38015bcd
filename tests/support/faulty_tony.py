"""The `tony` command with another AM on this machine: `JobModules.tony_command` runs this file.

Its first argument is the AM's module and its arguments in JSON; the others are those of `tony`.
"""

from __future__ import annotations

import json
import sys

from tony.cli import startup
from tony.isolated_interpreter import command
from tony.model.state_directory import JobFolder
from tony.schedulers.local import submitter
from tony.schedulers.local.supervision.am_start import start_master


def main() -> int:
    """Run one command line."""
    words = json.loads(sys.argv.pop(1))

    async def start(folder: JobFolder) -> None:
        await start_master(folder, command("tony.schedulers.local.supervision.supervisor", *words, str(folder.path)))

    vars(submitter)["start_master"] = start
    return startup.main()


if __name__ == "__main__":
    sys.exit(main())
