"""What a person waits for before anything happens: `tony --help`, and `import tony`, against an empty program.

All on this environment's interpreter, with its site-packages; bytecode is warm.
"""

from __future__ import annotations

import sys

from bench.harness import Result, at_most, interleaved
from bench.measured_processes import Workshop, tony

TITLE = "The command line and the package, before they do anything"


def measure(quick: bool) -> Result:
    """Interleaved runs of all."""
    python = sys.executable
    with Workshop() as shop:
        rounds = interleaved(
            {
                "help": lambda: shop.run(tony("--help")).figures,
                "import": lambda: shop.run([python, "-c", "import tony"]).figures,
                "run": lambda: shop.run(tony("run", "--help")).figures,
                "python -c pass": lambda: shop.run([python, "-c", "pass"]).figures,
            },
            1 if quick else 21,
            discard=1,
        )
    bare = "python -c pass"
    return Result(
        lines=(
            rounds.line("tony --help", "help", "wall", against=bare, target=at_most(0.150)),
            rounds.line("python -c 'import tony'", "import", "wall", against=bare, target=at_most(0.100)),
            rounds.line("tony run --help", "run", "wall", against=bare),
        ),
    )
