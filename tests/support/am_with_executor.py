"""An AM on this machine that starts another executor: `module_words("am_with_executor", WORDS, MODULE, ...)`.

WORDS are the executor's module and its arguments in JSON, MODULE is that of the AM, followed by its arguments.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from importlib import import_module

from tony.isolated_interpreter import command
from tony.schedulers.local import allocator


def main() -> int:
    """Run one AM attempt."""
    words, module = json.loads(sys.argv[1]), sys.argv[2]
    del sys.argv[1:3]
    executor_command = command(*words)
    vars(allocator)["LocalAllocator"] = partial(allocator.LocalAllocator, executor_command=executor_command)
    code: int = import_module(module).main()
    return code
