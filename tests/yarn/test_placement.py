"""Tasks kept apart where the ResourceManager rejects what does not fit now, instead of letting it wait."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.mini_clusters import options
from tests.yarn.conftest import prove_clean
from tests.yarn.lab import YarnLab, until

if TYPE_CHECKING:
    from tests.mini_clusters import Clusters

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETTINGS = {"yarn.resourcemanager.placement-constraints.handler": "placement-processor"}
HOLDS = "import os, time; open(os.environ['OUT'] + '/' + os.environ['TASK_INDEX'], 'w'); time.sleep(3600)"


@pytest.fixture
def lab(clusters: Clusters) -> Iterator[YarnLab]:
    """A user of a cluster with two nodes of 4 GB."""
    folder = Path(tempfile.mkdtemp(prefix="tony-yarn-"))
    lab = YarnLab(folder, clusters.with_options(options(SETTINGS, nodes=2)))
    try:
        yield lab
        prove_clean(lab)
    finally:
        lab.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_what_is_rejected_is_waited_for(lab: YarnLab) -> None:
    """Until there is room, which may be never: said why all the while; a job that fits is none the worse for it."""
    text = '[roles.worker]\ninstances = 2\nspread = true\nmemory = "2500m"\n'
    holder = lab.detach(lab.roles(HOLDS, text))
    lab.wait_wrote("0"), lab.wait_wrote("1")
    assert {task["host"] for task in lab.tasks(holder).values()} == {"127.0.1.1", "127.0.1.2"}
    waits = lab.detach(lab.job(f'command = "true"\n{text}', name="waits.toml"))
    never = "[roles.worker]\ninstances = 3\nspread = true\n"
    head = 'command = "true"\nallocation_timeout = "5s"\n'
    never_fits = lab.detach(lab.job(head + never, name="never.toml"))
    until(lambda: "there is no place now" in lab.status(waits)["waiting"], "it is said why it waits")
    assert lab.wait(never_fits)["exit_code"] == 3
    reason = lab.failure(never_fits)["reason"]
    assert "worker has 2 of 3 containers" in reason, reason
    assert "for worker there is no place now (could not" in reason, reason
    assert lab.tony("kill", holder, "--now").returncode == 0
    assert lab.wait(waits)["state"] == "succeeded"
    assert {task["host"] for task in lab.tasks(waits).values()} == {"127.0.1.1", "127.0.1.2"}
