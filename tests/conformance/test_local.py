"""The local scheduler keeps to the contract of container allocators, with real processes.

One fault cannot be provoked: its answers do not travel, so none is lost.
"""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.conformance.local_scheduler import bench
from tony.testing import conformance, container_faults

FAULTS = (
    container_faults.SlowContainer,
    container_faults.RefusedContainer,
    container_faults.LostContainer,
    container_faults.ContainerExitsBeforeRegistering,
)


@pytest.mark.parametrize("clause", conformance.clauses(FAULTS))
def test_contract(clause: str, tmp_path: Path) -> None:
    """Each clause holds; its docstring says which it is."""
    asyncio.run(conformance.check(clause, partial(bench, tmp_path)))
