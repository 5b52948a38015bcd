"""Placement constraints: what is sent to YARN, and what is refused because YARN would wait for it forever."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.facts import mention_each, mentions
from tests.schedulers.yarn.samples import yarn_role
from tony.errors import Problem
from tony.hadoop.wire.placement import forbid_tags, require_all
from tony.hadoop.yarn.constraint_text import parse
from tony.model.job_spec import JobSpec, Role
from tony.model.state_directory import Home
from tony.schedulers import registry
from tony.schedulers.yarn.allocation.outstanding_requests import build_container_request
from tony.schedulers.yarn.placement_constraints import (
    build_constraint,
    find_constraint_hints,
    find_placed,
    find_unsatisfiable_constraints,
    list_tags,
)
from tony.schedulers.yarn.settings import YarnSettings, read_role_settings

NONE = YarnSettings()
OF_ALL = YarnSettings(placement="os=linux")
NODES = {"n1": "/rack"}


def job(**roles: Role) -> JobSpec:
    return JobSpec(command="true", roles=roles)


def test_tags() -> None:
    """The role's name, or those that it has; what is spread is known by its name in any case."""
    assert list_tags("worker", Role()) == ("worker",)
    assert list_tags("worker", yarn_role(placement_tags=("a", "b", "a"))) == ("a", "b")
    assert list_tags("worker", yarn_role(placement_tags=("a",), spread=True)) == ("a", "worker")
    assert list_tags("worker", yarn_role(placement_tags=("worker", "a"), spread=True)) == ("worker", "a")


def test_a_job_without_any() -> None:
    """Is asked for by hosts and labels, as ever."""
    spec = job(worker=Role(), ps=Role(node_label="big"))
    assert find_placed(spec, NONE) == {}
    assert build_container_request(spec, "worker", NONE, NODES).hosts == ("n1",)
    assert build_container_request(spec, "ps", NONE, NODES).label == "big"


def test_an_ask_with_a_constraint() -> None:
    spec = job(worker=yarn_role(placement="notin,node,worker", placement_tags=("a", "b")))
    ask = build_container_request(spec, "worker", NONE, NODES)
    assert (ask.tags, ask.constraint) == (("a", "b"), parse("notin,node,worker"))
    assert (ask.hosts, ask.racks, ask.label) == ((), (), None)


def test_spread_and_more() -> None:
    spec = job(worker=yarn_role(spread=True, placement="os=linux"), ps=Role(spread=True))
    assert build_constraint(spec, "worker", NONE) == require_all(forbid_tags("node", "worker"), parse("os=linux"))
    assert build_constraint(spec, "ps", NONE) == forbid_tags("node", "ps")


def test_roles_named_in_constraints_have_tags() -> None:
    """YARN knows no tags of containers requested otherwise: `worker` would match none."""
    spec = job(
        worker=yarn_role(placement="notin,node,ps,all/db,not-self/etl"), ps=Role(), db=Role(), etl=Role(), other=Role()
    )
    key = "roles.worker.yarn.placement"
    assert find_placed(spec, NONE) == {"worker": key, "ps": key, "db": key}
    assert build_container_request(spec, "ps", NONE, NODES).tags == ("ps",)
    assert build_container_request(spec, "other", NONE, NODES).hosts == ("n1",)
    assert find_placed(
        job(worker=yarn_role(placement_tags=("a",)), ps=Role(spread=True), none=Role(instances=0)), NONE
    ) == {
        "worker": "roles.worker.yarn.placement_tags",
        "ps": "roles.ps.spread",
    }


def test_for_all_of_the_application() -> None:
    """With each ask, beside what is the role's own."""
    spec = job(worker=yarn_role(placement_tags=("a", "b")), ps=yarn_role(placement="in,rack,a", spread=True), db=Role())
    assert [build_constraint(spec, name, OF_ALL) for name in spec.roles] == [
        parse("os=linux"),
        require_all(forbid_tags("node", "ps"), parse("in,rack,a"), parse("os=linux")),
        parse("os=linux"),
    ]
    assert find_placed(spec, OF_ALL) == {
        "worker": "roles.worker.yarn.placement_tags",
        "ps": "roles.ps.spread",
        "db": "scheduler.yarn.placement",
    }


def told_of(roles: Mapping[str, Role], settings: str | None = None) -> list[Problem]:
    return find_unsatisfiable_constraints(JobSpec(command="true", roles=roles), YarnSettings(placement=settings))


def told(settings: str | None = None, **roles: Role) -> list[Problem]:
    return told_of(roles, settings)


def one(settings: str | None = None, **roles: Role) -> str:
    (problem,) = told(settings, **roles)
    return str(problem)


def test_all_that_cannot_be_read() -> None:
    """At once, each with its key and its place; roles without tasks ask for nothing."""
    found = told("os=", worker=yarn_role(placement="notin,nod,worker"), ps=yarn_role(placement_tags=("a b", "c")))
    assert mention_each(
        list(map(str, found)),
        ("scheduler.yarn.placement = os=", "NAME=VALUE", "NAME!=VALUE", "1"),
        ("roles.worker.yarn.placement = notin,nod,worker", "node", "rack", "7"),
        ("roles.ps.yarn.placement_tags = a b", "contain", "blanks"),
    )
    assert told(worker=yarn_role(instances=0, placement="nonsense")) == []


def test_no_cluster_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There need not even be one."""
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    spec = JobSpec(command="true", scheduler="yarn", roles={"worker": yarn_role(placement="in,node")})
    (problem,) = registry.load("yarn").create_submitter(Home(tmp_path)).check(spec)
    assert problem.key == "roles.worker.yarn.placement"


def test_with_a_label() -> None:
    """YARN would look among the nodes without a label, for ever."""
    message = "YARN spreads tasks over nodes without a label only, but worker requests gpu. Remove one of the settings."
    assert told(worker=Role(spread=True, node_label="gpu")) == [
        Problem(key="roles.worker.spread", value="true", message=message)
    ]
    spec = JobSpec(command="true", roles={"worker": Role(spread=True)})
    assert [problem.message for problem in find_unsatisfiable_constraints(spec, YarnSettings(node_label="gpu"))] == [
        message
    ]
    assert mentions(
        one(worker=yarn_role(placement="notin,node,worker", node_label="gpu")),
        "roles.worker.yarn.placement = notin,node,worker",
        "gpu",
    )
    assert "roles.worker.yarn.placement_tags = a, b: YARN supports" in one(
        worker=yarn_role(placement_tags=("a", "b"), node_label="x")
    )
    assert "scheduler.yarn.placement = os=linux: YARN supports" in one("os=linux", worker=Role(node_label="x"))
    spoken_of = one(worker=yarn_role(placement="notin,node,ps"), ps=Role(node_label="big"))
    assert spoken_of.startswith("roles.worker.yarn.placement = notin,node,ps: YARN supports")
    assert "but ps requests big" in spoken_of


@pytest.mark.parametrize(
    "roles",
    [
        {"worker": yarn_role(placement="in,node,ps"), "ps": Role()},
        {"worker": yarn_role(placement="in,node,ps"), "ps": yarn_role(placement="in,rack,db"), "db": Role()},
        {"worker": yarn_role(placement="or(in,node,others:notin,node,worker)")},
        {"worker": yarn_role(placement="or(in,node,worker:os=linux)")},
        {"worker": yarn_role(placement="cardinality,node,worker,0,1", instances=8)},
        {"worker": yarn_role(placement="cardinality,rack,ps,2,9"), "ps": Role(instances=2)},
        {"worker": yarn_role(placement="in,node,all/others,app-tag/nightly/x,not-self/y")},
        {"worker": yarn_role(placement="in,node,a", placement_tags=("a",)), "first": yarn_role(placement_tags=("a",))},
        {
            "worker": yarn_role(placement="and(in,node,ps:in,node,ps)"),
            "ps": yarn_role(placement="notin,node,ps", instances=3),
        },
    ],
)
def test_satisfiable_constraints(roles: dict[str, Role]) -> None:
    """As far as it depends on the job itself."""
    assert told_of(roles) == []


@pytest.mark.parametrize(
    ("roles", "why"),
    [
        (
            {"worker": yarn_role(placement="in,node,pss"), "ps": Role()},
            "no container of the job has the tag pss; there are ps, worker.",
        ),
        (
            {"worker": yarn_role(placement="in,node,worker", instances=4)},
            "it requires a container with the tag worker first, but none can be placed before.",
        ),
        (
            {"worker": yarn_role(placement="cardinality,rack,ps,3,9"), "ps": Role(instances=2)},
            "it requires 3 containers with the tag ps in one place, but at most 2 can exist.",
        ),
        (
            {"worker": yarn_role(placement="and(os=linux:or(in,node,ps:in,rack,ps))"), "ps": Role(instances=0)},
            "no container of the job has the tag ps; there are worker.",
        ),
    ],
)
def test_unsatisfiable_constraints(roles: dict[str, Role], why: str) -> None:
    """YARN would wait for them silently."""
    (problem,) = told_of(roles)
    text = read_role_settings(roles["worker"]).placement
    assert mentions(str(problem), f"roles.worker.yarn.placement = {text}", why)


def test_waiting_for_each_other() -> None:
    found = told(a=yarn_role(placement="in,node,b"), b=yarn_role(placement="in,node,a"), c=Role())
    assert [problem.key for problem in found] == ["roles.a.yarn.placement", "roles.b.yarn.placement"]
    (problem,) = told("in,node,b", a=yarn_role(placement="os=linux", instances=0), b=Role())
    assert (problem.key, problem.value) == ("scheduler.yarn.placement", "in,node,b")


def test_unknown_roles_get_a_hint() -> None:
    spec = JobSpec(roles={"worker": yarn_role(placement="and(notin,node,pss,worker:notin,node,all/x)"), "ps": Role()})
    assert mention_each(find_constraint_hints(spec, YarnSettings()), ("roles.worker.yarn.placement", "pss", "ps"))
