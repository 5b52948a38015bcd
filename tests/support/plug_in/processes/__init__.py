"""A scheduler outside tony: each container is a process of this machine, which enlists at the application master.

It imports only what a package of its own could, and runs on nodes without it: `FOLDER` is where they import it from.
"""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]
