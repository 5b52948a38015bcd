"""Where `tony` begins: before anything is imported that takes time."""

from __future__ import annotations

import sys

#: Commands that start a job, nearly always one of the local scheduler.
_STARTING = ("run", "submit")


def main() -> int:
    """Runs one command line; answers the exit code."""
    if sys.argv[1:2] and sys.argv[1] in _STARTING:
        from tony.schedulers.local import standby

        standby.prepare()
        try:
            return _main()
        finally:
            left = standby.take()
            if left:
                left.dismiss()
    return _main()


def _main() -> int:
    from tony.cli.main import main

    return main()
