"""The rules, by what prints the line; the first one that matches a line counts, so special ones come first."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.diagnosis.rules import (
    accelerators,
    cluster_managers,
    counters,
    jax,
    kernel,
    launchers,
    programs,
    python,
    pytorch,
    storage,
    tensorflow,
)

RULES: tuple[Rule, ...] = (
    *counters.RULES,
    *cluster_managers.RULES,
    *launchers.RULES,
    *accelerators.RULES,
    *pytorch.RULES,
    *tensorflow.RULES,
    *jax.RULES,
    *storage.RULES,
    *kernel.RULES,
    *programs.RULES,
    *python.RULES,
)
