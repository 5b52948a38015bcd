"""Jobs that a cluster can never run are refused, with the arithmetic."""

from dataclasses import replace
from typing import Any

from tests.facts import mention_each, mentions
from tests.schedulers.yarn.samples import yarn_role
from tony.errors import Problem
from tony.model.job_spec import GIB, MIB, JobSpec, Resources, Role
from tony.model.setting_choices import DistributedMode
from tony.schedulers.yarn.client.capacity import ClusterCapacity, ClusterNode, Queue
from tony.schedulers.yarn.client.feasibility import count_suitable_nodes, find_notices, find_unsatisfiable_requests
from tony.schedulers.yarn.settings import YarnSettings

BIG = ClusterNode(host="big", has={"memory-mb": 8192, "vcores": 2, "yarn.io/gpu": 0})
FAST = ClusterNode(host="fast", has={"memory-mb": 4096, "vcores": 16, "yarn.io/gpu": 4}, labels=["gpu"])
OFFER = ClusterCapacity(
    maximum={"memory-mb": 8192, "vcores": 32, "yarn.io/gpu": 8},
    types=["memory-mb", "vcores", "yarn.io/gpu"],
    labels=["gpu", "ssd"],
    shared_labels=["gpu", "ssd"],
    nodes=[BIG, FAST],
    queue=Queue(running=True, labels=["*"]),
    queues=["default", "research"],
)


def job(resources: Resources, **more: Any) -> JobSpec:
    role = yarn_role(instances=1, resources=resources, **more)
    return JobSpec(command="true", roles={"worker": role})


def told(spec: JobSpec, offer: ClusterCapacity = OFFER, **settings: object) -> list[Problem]:
    return find_unsatisfiable_requests(spec, YarnSettings(**settings), offer)  # type: ignore[arg-type]


def noticed(spec: JobSpec, offer: ClusterCapacity = OFFER, **settings: object) -> list[str]:
    return find_notices(spec, YarnSettings(**settings), offer)  # type: ignore[arg-type]


SMALL = job(Resources())


def test_fits() -> None:
    """All that one node has may be asked for, and a role without tasks for anything."""
    assert told(SMALL) == []
    assert told(job(Resources(memory=8 * GIB, vcores=2))) == []
    assert told(job(Resources(memory=4 * GIB, vcores=16, gpus=4), node_label="gpu")) == []
    assert told(job(Resources(memory=GIB, others={"yarn.io/gpu": 4}))) == []
    assert told(JobSpec(roles={"worker": Role(instances=0, resources=Resources(memory=900 * GIB))})) == []


def test_unknown_queue() -> None:
    """The queues that there are, are named."""
    assert told(SMALL, replace(OFFER, queue=None), queue="reserch") == [
        Problem(
            key="scheduler.yarn.queue",
            value="reserch",
            message="unknown queue; the cluster has default, research.",
        )
    ]


def test_many_queues() -> None:
    queues = [f"q{number}" for number in range(11)]
    problem = told(SMALL, replace(OFFER, queue=None, queues=queues))[0]
    assert mentions(problem.message, "3 more", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7")


def test_stopped_queue() -> None:
    """It would refuse the application."""
    (problem,) = told(SMALL, replace(OFFER, queue=Queue(running=False)), queue="old")
    assert (problem.key, problem.value) == ("scheduler.yarn.queue", "old")
    assert mentions(problem.message, "STOPPED")


def test_parent_queue() -> None:
    assert told(SMALL, replace(OFFER, queue=Queue(running=True, children=["a", "b"])), queue="research") == [
        Problem(
            key="scheduler.yarn.queue",
            value="research",
            message="not a leaf queue, so it accepts no applications; use one of a, b.",
        )
    ]


def test_unknown_label() -> None:
    """Of a role, of the job, and where there are none at all."""
    message = "unknown node label; the cluster has gpu, ssd."
    assert told(job(Resources(), node_label="gup")) == [
        Problem(key="roles.worker.node_label", value="gup", message=message)
    ]
    keys = [problem.key for problem in told(SMALL, node_label="gup")]
    assert keys == ["scheduler.yarn.node_label"]
    keys = [problem.key for problem in told(SMALL, node_label="gpu", am_node_label="gup")]
    assert keys == ["scheduler.yarn.am_node_label"]
    problem = told(job(Resources(), node_label="gpu"), replace(OFFER, labels=[]))[0]
    assert mentions(problem.message, "node label")


def test_label_of_another_queue() -> None:
    """A queue may use some labels, or none; what it may is said. Where there is no queue, that is the trouble."""
    message = (
        "the queue has no access to this node label; it can access %s. "
        "Use another queue, or ask the cluster's administrator."
    )
    for labels, may in ((["ssd"], "ssd"), ([], "none"), ([""], "none")):
        offer = replace(OFFER, queue=Queue(running=True, labels=labels))
        assert told(job(Resources(), node_label="gpu"), offer) == [
            Problem(key="roles.worker.node_label", value="gpu", message=message % may)
        ]
        assert [problem.key for problem in told(SMALL, offer, am_node_label="gpu")] == ["scheduler.yarn.am_node_label"]
    assert told(job(Resources(), node_label="gpu"), replace(OFFER, queue=Queue(running=True, labels=["gpu"]))) == []
    problems = told(job(Resources(), node_label="gpu"), replace(OFFER, queue=None))
    assert [problem.key for problem in problems] == ["scheduler.yarn.queue"]


def test_more_tasks_than_fit_at_one_time() -> None:
    """Such a gang never starts, unless nodes join. Nodes with a label take only who names it; cores need not count."""
    offer = replace(OFFER, shared_labels=[])
    gang = replace(SMALL, roles={"worker": Role(instances=3, resources=Resources(memory=3 * GIB, vcores=2))})
    said = (
        "All 3 tasks of worker start together (3g each), but the nodes can hold only 2 at the same time, even if "
        "idle. Unless nodes join, the job never starts. Request less, or fewer tasks."
    )
    assert noticed(gang, offer) == [said]
    assert noticed(gang, OFFER) == []
    for least, expected in ((2, []), (3, [said.replace("All 3", "At least 3")])):
        fewer = replace(gang.roles["worker"], min_instances=least, instances=4)
        assert noticed(replace(gang, roles={"worker": fewer}), offer) == expected
    assert noticed(replace(gang, distributed_mode=DistributedMode.FCFS), offer) == []
    gpus = job(Resources(gpus=2), node_label="gpu")
    four = replace(gpus, roles={"worker": replace(gpus.roles["worker"], instances=4)})
    assert mentions(noticed(four)[0], "1g", "2 yarn.io/gpu")


def test_room() -> None:
    """How many nodes could run a role's tasks; the effect of placement constraints is unknown."""
    gone = replace(BIG, host="gone", away="lost")
    roles = {
        "small": Role(),
        "large": Role(resources=Resources(memory=6 * GIB)),
        "fast": Role(node_label="gpu"),
        "apart": Role(spread=True),
        "none": Role(instances=0),
    }
    spec, offer = JobSpec(command="true", roles=roles), replace(OFFER, nodes=[BIG, FAST, gone])
    assert count_suitable_nodes(spec, YarnSettings(), offer) == {"small": 2, "large": 1, "fast": 1}


def test_mounts_without_an_image() -> None:
    spec = job(Resources(), mounts="/data:/data:ro")
    said = (
        "roles.worker.yarn.mounts has no effect without an image: set `image`, or `docker_image` in [scheduler.yarn]."
    )
    assert noticed(spec) == [said]
    assert noticed(spec, docker_image="base") == noticed(job(Resources(), mounts="/a:/a:ro", image="base")) == []


def test_unknown_resource() -> None:
    """YARN would grant containers without it and say nothing."""
    (problem,) = told(job(Resources(others={"yarn.io/fpga": 1})))
    assert (problem.key, problem.value) == ("roles.worker.resources.yarn.io/fpga", "1")
    assert mentions(problem.message, "yarn.io/fpga", "memory-mb, vcores, yarn.io/gpu")
    without = replace(OFFER, types=["memory-mb", "vcores"])
    assert [problem.key for problem in told(job(Resources(gpus=1)), without)] == ["roles.worker.gpus"]


def test_over_the_maximum() -> None:
    """What no container may have, whatever the nodes have, with the setting that says so."""
    assert told(job(Resources(memory=9 * GIB, vcores=33))) == [
        Problem(
            key="roles.worker.memory",
            value="9g",
            message="a task of worker requests 9g, but a container of this cluster can have at most 8g "
            "(yarn.scheduler.maximum-allocation-mb).",
        ),
        Problem(
            key="roles.worker.vcores",
            value="33 vcores",
            message="a task of worker requests 33 vcores, but a container of this cluster can have at most 32 vcores "
            "(yarn.scheduler.maximum-allocation-vcores).",
        ),
    ]
    assert [problem.message.partition("(")[2] for problem in told(job(Resources(gpus=9)))] == [
        "yarn.resource-types.yarn.io/gpu.maximum-allocation)."
    ]


def test_larger_than_any_node() -> None:
    """A container is never spread over nodes."""
    (problem,) = told(job(Resources(vcores=17)))
    assert (problem.key, problem.value) == ("roles.worker.vcores", "17 vcores")
    assert mentions(problem.message, "17 vcores", "2 nodes", "16 vcores", "worker")


def test_larger_than_any_labelled_node() -> None:
    """Only nodes of the label count."""
    assert told(job(Resources(memory=6 * GIB), node_label="gpu")) == [
        Problem(
            key="roles.worker.memory",
            value="6g",
            message="a task of worker requests 6g, but the only node with the label gpu has 4g. Request less.",
        )
    ]


def test_labelled_nodes_that_take_nothing_else() -> None:
    """What names no label goes to the other nodes only, unless its queue stands for a label."""
    offer = replace(OFFER, shared_labels=["ssd"])
    assert told(job(Resources(memory=4 * GIB, vcores=16, gpus=4), node_label="gpu"), offer) == []
    message = "a task of worker requests 4 vcores, but the only node without a label has 2 vcores. Request less."
    assert [problem.message for problem in told(job(Resources(vcores=4)), offer)] == [message]
    of_gpu = replace(offer, queue=Queue(running=True, labels=["gpu"], label="gpu"))
    assert told(job(Resources(vcores=4)), of_gpu) == []
    message = "the application master requests 6g, but the only node with the label gpu has 4g. Request less."
    assert [problem.message for problem in told(SMALL, of_gpu, am_memory=6 * GIB)] == [message]
    assert [problem.message for problem in told(job(Resources(vcores=4), spread=True), of_gpu)] != []


def test_no_node_has_all_of_it() -> None:
    """Each alone would fit somewhere, not together."""
    (problem,) = told(job(Resources(memory=8 * GIB, vcores=16)))
    assert (problem.key, problem.value) == ("roles.worker.memory", "8g")
    assert mentions(problem.message, "16 vcores", "2 nodes", "worker", "8g")


def test_the_only_node() -> None:
    alone = replace(OFFER, nodes=[FAST])
    assert mention_each(
        [problem.message for problem in told(job(Resources(vcores=17)), alone)], ("17 vcores", "16 vcores", "worker")
    )
    mixed = replace(OFFER, nodes=[ClusterNode(host="n", has={"memory-mb": 4096, "vcores": 4})], maximum={})
    assert told(job(Resources(memory=4 * GIB, vcores=4)), mixed) == []


def test_memory_counts_in_whole_megabytes() -> None:
    """It is rounded up, as YARN gets it."""
    assert [problem.value for problem in told(job(Resources(memory=8 * GIB + 1)))] == ["8193m"]


def test_no_nodes() -> None:
    """A cluster whose nodes are not up yet, or with none of the label now, is waited for."""
    assert told(job(Resources(vcores=17)), replace(OFFER, nodes=[])) == []
    assert told(job(Resources(vcores=17), node_label="ssd")) == []


def test_master_too_large() -> None:
    """The application master needs a place as well."""
    (problem,) = told(SMALL, am_memory=16 * GIB, am_vcores=20)
    assert (problem.key, problem.value) == ("scheduler.yarn.am_memory", "16g")
    assert mentions(problem.message, "16g", "8g", "yarn.scheduler.maximum-allocation-mb")
    (problem,) = told(SMALL, am_memory=64 * MIB, am_vcores=20)
    assert (problem.key, problem.value) == ("scheduler.yarn.am_vcores", "20 vcores")
    assert mentions(problem.message, "20 vcores", "2 nodes", "16 vcores")


def test_everything_at_once() -> None:
    """Queue, master and each role are told together."""
    roles = {"worker": Role(resources=Resources(vcores=17)), "ps": Role(resources=Resources(vcores=18))}
    found = find_unsatisfiable_requests(JobSpec(roles=roles), YarnSettings(am_vcores=20), replace(OFFER, queue=None))
    assert [problem.key for problem in found] == [
        "scheduler.yarn.queue",
        "scheduler.yarn.am_vcores",
        "roles.worker.vcores",
        "roles.ps.vcores",
    ]


def plain(host: str, memory: int = 4096, vcores: int = 8, away: str = "", label: str = "") -> ClusterNode:
    return ClusterNode(
        host=host, has={"memory-mb": memory, "vcores": vcores}, labels=[label] if label else [], away=away
    )


TENTH = Queue(running=True, labels=["*"], path="root.small", most_memory=1228, share=0.10000000149011612)
THREE = ClusterCapacity(
    maximum={"memory-mb": 4096, "vcores": 8},
    types=["memory-mb", "vcores"],
    labels=["fast"],
    shared_labels=[],
    nodes=[plain("n1"), plain("n2"), plain("n3")],
    queue=TENTH,
    queues=["default", "small"],
)


def test_over_the_queue() -> None:
    """A container that the queue could not hold if it were empty, with both numbers; to the last megabyte."""
    message = (
        "{} requests {}, but the queue root.small can use at most 1228m of 12g in all, 10 % by its "
        "maximum-capacity and its parents'. Request less, or use another queue."
    )
    assert told(job(Resources(memory=4 * GIB)), THREE) == [
        Problem(key="roles.worker.memory", value="4g", message=message.format("a task of worker", "4g"))
    ]
    assert told(SMALL, THREE, am_memory=1229 * MIB) == [
        Problem(
            key="scheduler.yarn.am_memory", value="1229m", message=message.format("the application master", "1229m")
        )
    ]
    assert told(job(Resources(memory=1228 * MIB)), THREE) == []


def test_a_queue_without_a_certain_limit() -> None:
    """One of another scheduler, that of a label, nodes that others lend, and cores, which may not count at all."""
    large = job(Resources(memory=4 * GIB))
    assert told(large, replace(THREE, queue=replace(TENTH, most_memory=None))) == []
    assert told(large, replace(THREE, shared_labels=["fast"])) == []
    labelled = replace(THREE, nodes=[*THREE.nodes, plain("n4", label="fast")])
    assert told(large, labelled, node_label="fast") == []
    assert told(large, replace(labelled, queue=replace(TENTH, label="fast"))) == []
    assert told(job(Resources(memory=GIB, vcores=8)), THREE) == []


def test_over_the_default_queue() -> None:
    """It may stand for a queue of the user's: what it could not hold is said, and not refused."""
    offer = replace(THREE, queue=replace(TENTH, path="root.default"))
    large = job(Resources(memory=4 * GIB))
    assert told(large, offer) == []
    assert mention_each(noticed(large, offer), ("1228m of 12g", "10 %", "worker", "4g", "root.default"))


def test_over_the_default_queue_and_nodes_away() -> None:
    """Of a job that their return would not help, it is not said that it waits for them."""
    queue = replace(TENTH, path="root.default", most_memory=819)
    offer = replace(THREE, queue=queue, nodes=[plain("n1"), plain("n2"), plain("n3", away="lost")])
    (sentence,) = noticed(job(Resources(memory=2 * GIB)), offer)
    assert "at most 1229m of 12g" in sentence
    assert "It never starts unless" in sentence


def test_a_queue_grows_with_the_cluster() -> None:
    """By the part that it may have of nodes that came just now, and of those that are away."""
    task = job(Resources(memory=1200 * MIB))
    late = replace(THREE, queue=replace(TENTH, most_memory=409))
    assert (told(task, late), noticed(task, late)) == ([], [])
    now = replace(TENTH, most_memory=819)
    less = replace(THREE, nodes=[plain("n1"), plain("n2"), plain("n3", away="lost")], queue=now)
    assert told(task, less) == []
    assert mention_each(noticed(task, less), ("root.small", "819m", "worker", "1200m", "unavailable", "n3 (lost)"))
    assert noticed(job(Resources(memory=819 * MIB)), less) == []
    by_amount = replace(less, queue=replace(now, share=0.0))
    assert told(task, by_amount) == []
    too_large = told(job(Resources(memory=2 * GIB)), by_amount)[0].message
    assert mentions(too_large, "1229m of 12g")


def test_only_nodes_that_are_away() -> None:
    """They may come back, so the job is not refused, and its user is told for what it waits."""
    offer = replace(
        THREE,
        maximum={"memory-mb": 8192, "vcores": 16},
        nodes=[plain("n1", 8192, 2), plain("n2", 2048, 16), plain("n3", away="unhealthy"), plain("n4", away="lost")],
        queue=Queue(running=True),
    )
    task = job(Resources(memory=4 * GIB, vcores=8))
    assert told(task, offer) == []
    assert mention_each(noticed(task, offer), ("8 vcores", "unavailable", "worker", "n3 (unhealthy)", "n4 (lost)"))
    assert (told(SMALL, offer), noticed(SMALL, offer)) == ([], [])
    assert mention_each(
        [problem.message for problem in told(job(Resources(memory=8 * GIB, vcores=8)), offer)],
        ("8 vcores", "4 nodes", "worker", "8g", "2", "unavailable"),
    )


def test_only_labelled_nodes_that_are_away() -> None:
    """Where no other has the label, the job would have waited without a word."""
    offer = replace(THREE, nodes=[plain("n1"), plain("n2", away="rebooted", label="fast")])
    task = job(Resources(), node_label="fast")
    assert told(task, offer) == []
    assert mention_each([sentence.partition(": ")[2] for sentence in noticed(task, offer)], ("n2 (rebooted)",))


def test_larger_than_every_node_that_runs() -> None:
    """The ResourceManager itself refuses it then: when to try again is said."""
    offer = replace(THREE, nodes=[plain("n1"), plain("n2", vcores=16, away="shutdown")], queue=Queue(running=True))
    assert mention_each(
        [problem.message for problem in told(job(Resources(vcores=16)), offer)],
        ("16 vcores", "8 vcores", "worker", "yarn.scheduler.maximum-allocation-vcores", "running", "n2"),
    )


def test_a_queue_that_may_be_made() -> None:
    """The ResourceManager decides, and its user knows that there is none yet."""
    offer = replace(THREE, queue=None, made_below="root.users")
    assert told(SMALL, offer, queue="root.users.ann") == []
    assert mention_each(noticed(SMALL, offer, queue="root.users.ann"), ("root.users.ann", "default", "ResourceManager"))


def test_half_of_a_path() -> None:
    offer = replace(THREE, queue=None, whole_path="root.users.ann")
    assert mention_each(
        [problem.message for problem in told(SMALL, offer, queue="users.ann")], ("default", "root.users.ann")
    )
