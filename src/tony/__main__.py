"""`python -m tony`: the command line of the interpreter at hand, whichever `tony` is found first on PATH."""

from __future__ import annotations

import sys

from tony.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
