"""Where a job's tasks may be, as YARN is told with each ask."""

from __future__ import annotations

from tests.schedulers.yarn.samples import yarn_role
from tony.hadoop.wire.placement import forbid_tags, require_all
from tony.hadoop.yarn.constraint_text import parse
from tony.model.job_spec import JobSpec, Role
from tony.schedulers.yarn.allocation.outstanding_requests import build_container_request
from tony.schedulers.yarn.client.placement_constraints import build_constraint, find_placed, list_tags
from tony.schedulers.yarn.settings import YarnSettings

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
