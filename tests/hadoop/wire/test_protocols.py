"""The methods: their names, and YARN messages whose bytes are known from Hadoop's own classes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tony
from tony.hadoop.hdfs import namenode_rpc
from tony.hadoop.wire import application_client, application_master
from tony.hadoop.wire.placement import (
    NO_LIMIT,
    NODE,
    RACK,
    AttributeOperation,
    PlacementConstraint,
    PlacementTarget,
    PlacementTargetType,
    SimpleConstraint,
    forbid_tags,
    require_all,
    require_attribute,
)
from tony.hadoop.wire.proto import ProtoMessage, decode, encode
from tony.hadoop.wire.rpc import Method
from tony.hadoop.wire.yarn_records import (
    ApplicationAttemptId,
    ApplicationId,
    ContainerId,
    ContainerState,
    ContainerStatus,
    ExecutionType,
    ExecutionTypeRequest,
    Priority,
    Resource,
    ResourceKind,
    ResourceRequest,
    ResourceValue,
)

PROTOCOLS = (application_client, application_master, namenode_rpc)
METHODS = [each for module in PROTOCOLS for each in vars(module).values() if isinstance(each, Method)]


@pytest.mark.parametrize("method", METHODS, ids=lambda each: f"{each.protocol.rpartition('.')[2]}.{each.name}")
def test_methods_are_well_formed(method: Method[ProtoMessage, ProtoMessage]) -> None:
    """Names as Java has them; types that are messages."""
    assert re.fullmatch(r"[a-z][A-Za-z0-9]+", method.name)
    assert method.protocol.startswith("org.apache.hadoop.")
    assert issubclass(method.request, ProtoMessage)
    assert issubclass(method.response, ProtoMessage)


def test_no_method_is_declared_twice() -> None:
    """A constant copied and not changed would."""
    assert len({(each.protocol, each.name) for each in METHODS}) == len(METHODS)


APPLICATION = ApplicationId(number=1, cluster_timestamp=1410901177871)
ATTEMPT = ApplicationAttemptId(application=APPLICATION, number=3)

#: What the record classes of Hadoop 3.4.2 wrote.
GOLDEN = {
    "container id": "120d0a090801108fec8d8288291003188580808080a004",
    "apart": "0a190a046e6f6465120b0802120473656c661a0177180020002801",
    "attribute": "0a280a046e6f6465120808011201611a017818ffffffffffffffffff0120ffffffffffffffffff012802",
    "all of": "12400801121b0a190a046e6f6465120b0802120473656c661a0177180020002801"
    "121f0a1d0a047261636b120b0802120473656c661a0177180120ffffffff072801",
    "ask": "0a02080112012a1a2b08800410021a140a096d656d6f72792d6d621080041a024d6920001a0e0a0676636f72657310021a002000"
    "2004280132036770753a04080110004007",
    "status": "0a11120d0a090801108fec8d8288291003180510031a064b696c6c65642098ffffffffffffffff013001",
}
TOGETHER = PlacementConstraint(
    simple=SimpleConstraint(
        scope=RACK,
        targets=(PlacementTarget(type=PlacementTargetType.ALLOCATION_TAG, key="self", values=("w",)),),
        minimum=1,
        maximum=NO_LIMIT,
        operation=AttributeOperation.NONE,
    )
)
OURS = {
    "container id": ContainerId(attempt=ATTEMPT, number=17 << 40 | 5),
    "apart": forbid_tags(NODE, "w"),
    "attribute": require_attribute("a", "x"),
    "all of": require_all(forbid_tags(NODE, "w"), TOGETHER),
    "ask": ResourceRequest(
        priority=Priority(priority=1),
        resource_name="*",
        capability=Resource(
            memory=512,
            vcores=2,
            others=(
                ResourceValue(name="memory-mb", value=512, units="Mi", kind=ResourceKind.COUNTABLE),
                ResourceValue(name="vcores", value=2, units="", kind=ResourceKind.COUNTABLE),
            ),
        ),
        num_containers=4,
        relax_locality=True,
        node_label_expression="gpu",
        execution_type=ExecutionTypeRequest(execution_type=ExecutionType.GUARANTEED, enforce=False),
        allocation_request_id=7,
    ),
    "status": ContainerStatus(
        id=ContainerId(attempt=ATTEMPT, number=5),
        state=ContainerState.COMPLETE,
        diagnostics="Killed",
        exit_status=-104,
        execution_type=ExecutionType.GUARANTEED,
    ),
}


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_bytes_equal_those_of_hadoops_own_records(name: str) -> None:
    """In both directions."""
    ours = OURS[name]
    assert encode(ours).hex() == GOLDEN[name]
    assert decode(type(ours), bytes.fromhex(GOLDEN[name])) == ours


def test_amounts_take_memory_and_cores_from_their_own_fields() -> None:
    """Entries of that name in the map are ignored, as Hadoop does."""
    resource = Resource(
        memory=2048,
        vcores=2,
        others=(ResourceValue(name="memory-mb", value=1), ResourceValue(name="yarn.io/gpu", value=4)),
    )
    assert resource.amounts() == {"memory-mb": 2048, "vcores": 2, "yarn.io/gpu": 4}


def test_the_modules_are_light() -> None:
    """Client and master import these at every start: nothing but the standard library, and little of that."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import tony.hadoop.wire.application_client, tony.hadoop.wire.application_master, tony.hadoop.ids\n"
        "print(*sorted({'asyncio', 'json', 'logging', 'socket', 'ssl'} & set(sys.modules)))"
    )
    source = Path(tony.__file__).parents[1]
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, str(source)], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")
