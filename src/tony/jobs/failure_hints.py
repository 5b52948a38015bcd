"""Hints for errors of frameworks whose own text does not say what to do. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_KERAS = (
    "model.fit of Keras 3 does not work under MultiWorkerMirroredStrategy. Install tf_keras and set "
    'TF_USE_LEGACY_KERAS = "1" below [env], or write the training loop yourself.'
)
#: Pattern of an error line -> hint.
_HINTS = ((re.compile(r"Attempt to convert a value \(PerReplica|unsupported type .*PerReplica"), _KERAS),)


def find_hints(lines: Sequence[str]) -> list[str]:
    """Return hints for the errors among a program's last lines."""
    return [hint for pattern, hint in _HINTS if any(pattern.search(line) for line in lines)]
