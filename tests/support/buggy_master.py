"""An AM whose core has a bug that the first failure of a task meets: `module_words("buggy_master")`."""

from __future__ import annotations

from tony.am import main as am
from tony.core import failure_builders


def main() -> int:
    """Run one AM attempt."""
    vars(failure_builders)["describe_failure"] = lambda *_: None
    return am.main()
