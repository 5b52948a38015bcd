"""TensorFlow and its coordination service."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.model.diagnosis import FailureKind, LineMeaning

RULES = (
    Rule(
        name="tensorflow-peer",
        pattern=r"(UnavailableError|AbortedError|UNAVAILABLE|ABORTED|CancelledError)\b.*(Collective|Socket closed|"
        r"worker|peer|Connection|failed to connect)|Connection reset by peer.*\[Op:|"
        r"coordination_service_agent.*([Ee]rror|[Ff]ail|heartbeat)|"
        r"Coordination (service|agent).*(error|failed|heartbeat)|"
        r"(/job:\w+/.*task:\d+ )(heartbeat timeout|unexpectedly)|heartbeat timeout|"
        r"Collective ops is aborted by|errors_impl\.(Unavailable|Aborted|Cancelled)Error: Graph execution error:|"
        r"Aborting RingReduce|RecvBuf",
        kind=FailureKind.NETWORK,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        source="tensorflow: core/distributed_runtime/rpc; xla/tsl/distributed_runtime/coordination",
        examples=(
            (
                "tensorflow.python.framework.errors_impl.UnavailableError: {{function_node x}} Collective ops is "
                "aborted by: failed to connect to all addresses"
            ),
        ),
        traps=("I0000 coordination service started", "coordination_service_agent.cc:299] connected"),
    ),
    Rule(
        name="tensorflow-barrier",
        pattern=r"Barrier (timed out|failed)|DEADLINE_EXCEEDED|DeadlineExceededError",
        kind=FailureKind.RENDEZVOUS,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        advice="a task did not reach the barrier: see which one, and why",
        source="xla: xla/tsl/distributed_runtime/coordination/coordination_service.cc",
        examples=("DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]PjRT_Client_Connect. 1/2 tasks reached it.",),
        traps=("Barrier passed by 2 of 2 tasks",),
    ),
    Rule(
        name="tensorflow-data-loss",
        pattern=r"DataLossError|DATA_LOSS|corrupted record at|truncated record at",
        kind=FailureKind.USER_DATA,
        advice="a record file is broken: write it again, or skip it (ignore_errors)",
        source="tensorflow: core/lib/io/record_reader.cc",
        examples=("tensorflow.python.framework.errors_impl.DataLossError: corrupted record at 0 [Op:IteratorGetNext]",),
        traps=("data loss rate 0.1 in augmentation",),
    ),
    Rule(
        name="tensorflow-not-found",
        pattern=r"errors_impl\.NotFoundError\b.*(No such file|Unsuccessful TensorSliceReader|Could not find)",
        kind=FailureKind.USER_DATA,
        advice="the file is not where the program looks: check the path, and that every node has it",
        source="tensorflow: python/framework/errors_impl.py",
        examples=("tensorflow.python.framework.errors_impl.NotFoundError: data.tfrecord; No such file or directory",),
        traps=("NotFoundError was handled: no checkpoint",),
    ),
    Rule(
        name="keras-replica",
        pattern=r"Attempt to convert a value \(PerReplica|unsupported type .*PerReplica",
        kind=FailureKind.USER_CODE,
        advice="model.fit of Keras 3 does not work under MultiWorkerMirroredStrategy. Install tf_keras and set "
        'TF_USE_LEGACY_KERAS = "1" below [env], or write the training loop yourself',
        source="tensorflow: python/framework/constant_op.py, through keras 3",
        examples=("ValueError: Attempt to convert a value (PerReplica:{",),
        traps=("KeyError: 'PerReplica'",),
    ),
    Rule(
        name="tensorflow-argument",
        pattern=r"errors_impl\.(InvalidArgumentError|FailedPreconditionError|UnimplementedError)",
        kind=FailureKind.USER_CODE,
        source="tensorflow: python/framework/errors_impl.py",
        examples=(
            "tensorflow.python.framework.errors_impl.InvalidArgumentError: Matrix size-incompatible [Op:MatMul]",
        ),
        traps=("InvalidArgumentError is raised for such shapes",),
    ),
)
