"""Slurm and Kubernetes, where a program or its launcher runs something there, or tony itself does."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.model.diagnosis import FailureKind

RULES = (
    Rule(
        name="slurm-time-limit",
        pattern=r"\*\*\* .* CANCELLED AT \S+ DUE TO TIME LIMIT",
        kind=FailureKind.TIMEOUT,
        retry=True,
        advice="request more time (--time), or resume from a checkpoint",
        source="slurm: src/slurmd/slurmstepd/req.c",
        examples=("slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***",),
        traps=("slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-03-01T10:00:00 ***",),
    ),
    Rule(
        name="slurm-preemption",
        pattern=r"\*\*\* .* CANCELLED AT \S+ DUE TO (PREEMPTION|JOB REQUEUE)",
        kind=FailureKind.PREEMPTION,
        retry=True,
        source="slurm: src/slurmd/slurmstepd/req.c",
        examples=("slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-03-01T10:00:00 DUE TO PREEMPTION ***",),
        traps=("slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-03-01T10:00:00 ***",),
    ),
    Rule(
        name="slurm-cancelled",
        pattern=r"\*\*\* (JOB|STEP) \S+ ON \S+ CANCELLED AT \S+ \*\*\*",
        kind=FailureKind.KILLED,
        advice="a user cancelled the job of Slurm, or its launcher ended it",
        source="slurm: src/slurmd/slurmstepd/req.c",
        examples=("slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-03-01T10:00:00 ***",),
        traps=("slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-03-01T10:00:00 DUE TO NODE FAILURE ***",),
    ),
    Rule(
        name="slurm-node",
        pattern=r"\*\*\* .* CANCELLED AT \S+ DUE TO NODE FAILURE|^srun: error: Node failure on |\bNODE_FAIL\b",
        kind=FailureKind.NODE,
        retry=True,
        source="slurm: src/slurmd/slurmstepd/req.c, src/api/step_launch.c",
        examples=(
            "slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-03-01T10:00:00 DUE TO NODE FAILURE, SEE ***",
            "srun: error: Node failure on n7",
        ),
        traps=("srun: error: n7: task 3: Exited with exit code 1",),
    ),
    Rule(
        name="slurm-memory",
        pattern=r"Detected \d+ oom_kill events? in |^srun: error: \S+: tasks? [\d,-]+: Out Of Memory",
        kind=FailureKind.MEMORY,
        retry=True,
        source="slurm: src/plugins/task/cgroup/task_cgroup_memory.c",
        examples=(
            (
                "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM "
                "Killed."
            ),
            "srun: error: n1: task 0: Out Of Memory",
        ),
        traps=("srun: error: n1: task 0: Exited with exit code 1",),
    ),
    Rule(
        name="kubernetes-memory",
        pattern=r"\bOOMKilled\b|\bEvicted\b.*low on resource: memory|^The node was low on resource: memory",
        kind=FailureKind.MEMORY,
        retry=True,
        advice="raise the memory limit of the pod",
        source="kubernetes: pkg/kubelet/kuberuntime; pkg/kubelet/eviction/helpers.go",
        examples=(
            "pod trainer-0 failed: container main terminated: OOMKilled (exit code 137)",
            "The node was low on resource: memory. Container main was using 22Mi, request is 0.",
        ),
        traps=("oom_killed 0",),
    ),
    Rule(
        name="kubernetes-eviction",
        pattern=r"\bThe node was low on resource: |\b(pod|Pod|reason|Reason|Status)\b.*\bEvicted\b|"
        r"\bdeleted by (taint manager|preemption)|\bPreempted by ",
        kind=FailureKind.PREEMPTION,
        retry=True,
        source="kubernetes: pkg/kubelet/eviction/helpers.go; pkg/scheduler/framework/preemption",
        examples=(
            "The node was low on resource: ephemeral-storage. Threshold quantity: 75100960885, available: 49664872Ki.",
            "pod trainer-1 failed, reason: Evicted",
        ),
        traps=("Evicted 3 entries of the cache",),
    ),
    Rule(
        name="kubernetes-image",
        pattern=r"\b(ImagePullBackOff|ErrImagePull|ErrImageNeverPull|InvalidImageName)\b|\bimage \S+ cannot be pulled",
        kind=FailureKind.LAUNCH,
        advice="check the name of the image, and that the cluster may pull it (pull_secrets)",
        source="kubernetes: pkg/kubelet/images/types.go",
        examples=(
            "Error: ImagePullBackOff",
            "image torch:2 cannot be pulled (see `image`): not found",
        ),
        traps=("Pulling image busybox:1.36.1",),
    ),
    Rule(
        name="kubernetes-container-config",
        pattern=r"\bCreateContainerConfigError: ",
        kind=FailureKind.LAUNCH,
        advice="create what the message names in the namespace, or correct the setting that names it (template)",
        source="kubernetes: pkg/kubelet/kuberuntime/kuberuntime_container.go",
        examples=('CreateContainerConfigError: secret "wandb" not found',),
        traps=("Warning: container config error",),
    ),
    Rule(
        name="kubernetes-service-account",
        pattern=r"\bservice account \S+ cannot |\bis forbidden: User \"system:serviceaccount:",
        kind=FailureKind.PERMISSION,
        advice="give the service account of the application master its Role (see docs/kubernetes.md)",
        source="kubernetes: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go; tony itself",
        examples=(
            "service account tony cannot create pods in namespace ml: it needs its Role: kubectl -n ml create role",
            'podgroups.scheduling.k8s.io is forbidden: User "system:serviceaccount:ml:tony" cannot create resource',
        ),
        traps=('jobs.batch is forbidden: User "ann" cannot create resource "jobs"',),
    ),
    Rule(
        name="image-without-python",
        pattern=r"\bimage \S+ cannot be used: it has no python3\b",
        kind=FailureKind.LAUNCH,
        advice="use an image with Python 3.11 or later, such as python:3.12-slim",
        source="tony itself",
        examples=("image busybox cannot be used: it has no python3 on its PATH, and tony needs Python 3.11 or later",),
        traps=("python3 is not on the PATH",),
    ),
    Rule(
        name="staged-object-changed",
        pattern=r"\bcannot prepare the files of \S+: .* was (changed|removed) (in|from) ",
        kind=FailureKind.LAUNCH,
        advice="do what the message says about the changed file; the next submission sends it again",
        source="tony itself",
        examples=(
            "cannot prepare the files of worker:0: source was changed in oci://r/p. Delete that image, ...",
            "cannot prepare the files of worker:0: env.tar.gz was removed from the claim data, file tony-staging/1f",
        ),
        traps=("hdfs://nn/data was changed after the job was submitted",),
    ),
    Rule(
        name="node-without-image-volumes",
        pattern=r"\bits node cannot mount images: ",
        kind=FailureKind.LAUNCH,
        advice="set another `staging`, such as a PersistentVolumeClaim, or have containerd updated on the nodes",
        source="tony itself",
        examples=("its node cannot mount images: a registry as `staging` needs containerd 2.1 or later there",),
        traps=("cannot mount volume",),
    ),
    Rule(
        name="kubernetes-resources",
        pattern=r"\b0/\d+ nodes are available: ",
        kind=FailureKind.QUOTA,
        retry=True,
        advice="request less, or wait until others end",
        source="kubernetes: pkg/scheduler/framework/types.go",
        examples=("Error: 0/5 nodes are available: 5 Insufficient nvidia.com/gpu.",),
        traps=("5/5 nodes are available",),
    ),
)
