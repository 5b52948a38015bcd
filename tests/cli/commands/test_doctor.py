"""`tony doctor`: a line for each check, and an exit code that says whether jobs can run."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Tony
from tony.jobs import health_checks
from tony.model.health_check import Health, HealthCheck

GOOD = HealthCheck(name="pidfd", state=Health.OK, detail="Linux 6", required=True)
LACK = HealthCheck(name="GPUs", state=Health.MISSING, detail="none", cost="no GPU jobs", remedy="buy one")


@pytest.mark.parametrize("required", [False, True])
def test_what_is_missing(tony: Tony, monkeypatch: pytest.MonkeyPatch, required: bool) -> None:
    lack = HealthCheck(**{name: getattr(LACK, name) for name in LACK.__dataclass_fields__} | {"required": required})
    monkeypatch.setattr(health_checks, "check_health", lambda home: iter([GOOD, lack]))
    answer = tony("doctor")
    assert answer.code == (3 if required else 0)
    first, second, cost, remedy = answer.out.splitlines()
    assert first.split() == ["ok", "pidfd", "Linux", "6"]
    assert second.split() == ["missing", "GPUs", "none"]
    assert "no GPU jobs" in cost
    assert "buy one" in remedy
    answer = tony("doctor", "--json")
    assert answer.code == (3 if required else 0)
    assert answer.json["broken"] == (["GPUs"] if required else [])
    assert answer.json["checks"][1]["state"] == "missing"


def test_on_this_machine(tony: Tony, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real checks; no cluster is configured."""
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    answer = tony("doctor", "--json")
    names = [check["name"] for check in answer.json["checks"]]
    assert {"Python", "pidfd", "ports", "disk space", "control groups", "GPUs", "cluster"} <= set(names)
    assert answer.code == 0, answer.out
