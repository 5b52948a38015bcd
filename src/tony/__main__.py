"""`python -m tony`: the command line, run by this interpreter whichever `tony` is first on PATH."""

from __future__ import annotations

import sys

from tony.cli.startup import main

if __name__ == "__main__":
    sys.exit(main())
