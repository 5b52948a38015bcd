"""One target under the coverage-guided fuzzer: `python -m tests.fuzz.fuzz_target TARGET <arguments of libFuzzer>`."""

from __future__ import annotations

import os
import sys
import zlib
from random import Random

import atheris

#: The variable that names a program which does what this one does: libFuzzer starts itself again to compare inputs.
AGAIN = "TONY_FUZZ_AGAIN"
#: What the fuzzer sees the ways through: our code, and what it leaves the parsing to.
INSTRUMENTED = ("tony", "yaml", "tomllib", "tarfile", "zipfile", "pathspec", "json.decoder")
#: One in so many inputs has its memory measured exactly. All that are kept are measured when they are tested.
_EXACT = 16


def main() -> None:
    """Runs for as long as the arguments say; does not return."""
    name = sys.argv.pop(1)
    sys.argv[0] = os.environ.get(AGAIN, sys.argv[0])
    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from tests.fuzz.json_change import change
        from tests.fuzz.registry import TARGETS
        from tests.fuzz.target import check
    target = TARGETS[name]

    def try_one(data: bytes) -> None:
        check(target, data, exact=zlib.crc32(data) % _EXACT == 0)

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        chance = Random(seed)
        if chance.random() < 0.5:
            changed = change(data, chance)
            if len(changed) <= longest and changed != data:
                return changed
        mutated: bytes = atheris.Mutate(data, longest)
        return mutated

    if target.json:
        atheris.Setup(sys.argv, try_one, custom_mutator=mutate)
    else:
        atheris.Setup(sys.argv, try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
