"""An executor with a bug: `module_words("buggy_executor", "start")`, or `"run"` while its program runs.

What tony calls there returns None, so that its own code raises the exception.
"""

from __future__ import annotations

import sys

from tony.executor import executor, task_run
from tony.executor.main import run


def main() -> int:
    """Run an executor; its launch context is read as in production."""
    module, name = {"start": (executor, "Lease"), "run": (task_run, "MetricsSampler")}[sys.argv.pop(1)]
    vars(module)[name] = lambda *_, **__: None
    return run(None)
