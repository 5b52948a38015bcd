"""JAX, XLA and their coordination service."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.model.diagnosis import FailureKind, LineMeaning

#: The rule for lines that name the processes that are missing.
MISSING = "jax-missing"
RULES = (
    Rule(
        name=MISSING,
        pattern=r"timed out task names:|tasks are unhealthy \(stopped sending heartbeats\)",
        kind=FailureKind.RENDEZVOUS,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        advice="the named process did not reach the barrier, or went away: see where it was",
        source="xla: xla/pjrt/distributed/coordination/coordination_service.cc; seen of jax 0.10.2",
        examples=(
            "The first task at the barrier: 0. Some timed out task names:",
            "status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):",
        ),
        traps=("all tasks are healthy and send heartbeats",),
    ),
    Rule(
        name="jax-peer",
        pattern=r"Terminating process because the JAX distributed service detected fatal errors|"
        r"JAX distributed service detected|Polled an error from coordination service|"
        r"The following tasks are unhealthy|another task died|leader task (was|may have)|"
        r"(XlaRuntimeError|JaxRuntimeError): (UNAVAILABLE|ABORTED|CANCELLED|INTERNAL: .*[Gg]loo|FAILED_PRECONDITION)|"
        r"(XlaRuntimeError|JaxRuntimeError).*(peer|[Gg]loo.*(closed|reset|timed))",
        kind=FailureKind.NETWORK,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        source="xla: xla/pjrt/distributed/client.h, coordination_service.cc; jax: jaxlib",
        examples=(
            (
                "F0726 client.h:80] Terminating process because the JAX distributed service detected fatal errors. "
                "This most likely indicates that another task died; see the other task logs for more details."
            ),
        ),
        traps=("JAX distributed service started on port 1234",),
    ),
    Rule(
        name="jax-types",
        pattern=r"(jax\.(errors|_src\.errors)\.\w+Error|ConcretizationTypeError|TracerBoolConversionError|"
        r"TracerArrayConversionError|UnexpectedTracerError)",
        kind=FailureKind.USER_CODE,
        source="jax: jax/_src/errors.py",
        examples=("jax.errors.TracerBoolConversionError: Attempted boolean conversion of traced array",),
        traps=("jax.errors are documented",),
    ),
)
