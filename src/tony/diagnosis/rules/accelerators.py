"""CUDA, its libraries, NCCL, and the driver."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.model.diagnosis import FailureKind, LineMeaning

#: Name of the rule for a line of NCCL that names the peer that went away.
NAMED_PEER = "nccl-named-peer"

RULES = (
    Rule(
        name="gpu-memory",
        pattern=r"CUDA out of memory|OutOfMemoryError: (CUDA|HIP)|CUDA_ERROR_OUT_OF_MEMORY|HIP out of memory|"
        r"CUBLAS_STATUS_ALLOC_FAILED|CUDA error: out of memory|failed to allocate .* from device",
        kind=FailureKind.MEMORY,
        advice="the GPU's memory is full: use a smaller batch, gradient checkpointing or sharding, or a larger GPU",
        source="pytorch: c10/cuda/CUDACachingAllocator.cpp; CUDA driver API: CUresult",
        examples=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.",
            "RuntimeError: CUDA error: out of memory",
        ),
        traps=("CUDA memory allocated: 12 GiB",),
    ),
    Rule(
        name="gpu-assert",
        pattern=r"CUDA error: device-side assert triggered|Assertion `.*` failed\.?$",
        kind=FailureKind.USER_CODE,
        advice="an index or a label is out of range on the GPU: run the batch on the CPU to see which",
        source="pytorch: c10/cuda/CUDAException.cpp; aten/src/ATen/native/cuda/*.cu (CUDA_KERNEL_ASSERT)",
        examples=(
            "RuntimeError: CUDA error: device-side assert triggered",
            "Indexing.cu:1290: indexSelect: block: [0,0,0], thread: [0,0,0] Assertion `srcIndex < size` failed.",
        ),
        traps=("Assertion checks are enabled",),
    ),
    Rule(
        name="gpu-missing",
        pattern=r"\w(Error|Exception)\b.*(No CUDA GPUs are available|no CUDA-capable device is detected|"
        r"CUDA driver version is insufficient|Found no NVIDIA driver|Torch not compiled with CUDA enabled|"
        r"CUDA_ERROR_NO_DEVICE|invalid device ordinal|Error 80[34]: |"
        r"no kernel image is available for execution|NVIDIA driver on your system is too old)",
        kind=FailureKind.ACCELERATOR,
        advice="request GPUs for the role (gpus), and use a build of the framework that fits the driver",
        source="pytorch: torch/csrc/cuda/Module.cpp, torch/cuda/__init__.py; CUDA runtime API: cudaError",
        examples=("RuntimeError: No CUDA GPUs are available", "AssertionError: Torch not compiled with CUDA enabled"),
        traps=(
            # TensorFlow prints this where a task has no GPU, and continues on the CPU: cuda_driver.cc
            (
                "2026-11-26 16:42:02.738968: E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:328] failed "
                "call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
            ),
        ),
    ),
    Rule(
        name="gpu-hardware",
        pattern=r"uncorrectable ECC|CUDA error: (an illegal memory|unspecified launch|misaligned|the launch timed)|"
        r"NVRM: Xid|"
        r"\bXid \(PCI|GPU has fallen off the bus|GPU is lost|CUDA_ERROR_ECC_UNCORRECTABLE|CUDA error: hardware|"
        r"CUDNN_STATUS_(INTERNAL_ERROR|EXECUTION_FAILED)|CUBLAS_STATUS_(INTERNAL_ERROR|EXECUTION_FAILED)|"
        r"Error 802: system not yet initialized|cudaErrorLaunchFailure|CUDA error: unknown error|"
        r"CUDA_ERROR_(ILLEGAL_ADDRESS|LAUNCH_FAILED|UNKNOWN)",
        kind=FailureKind.ACCELERATOR,
        retry=True,
        advice="if it happens on one node only, exclude that node and tell its administrator; see its kernel log (Xid)",
        source="NVIDIA: XID errors; CUDA runtime API: cudaError",
        examples=(
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.",
        ),
        traps=("E cuda_driver.cc:328] failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error",),
    ),
    Rule(
        name=NAMED_PEER,
        pattern=r"^socket\w+: Connection closed by remote peer \S+<\d+>",
        kind=FailureKind.NETWORK,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        source="nccl: src/misc/socket.cc",
        examples=("socketProgress: Connection closed by remote peer a1.example<52114>",),
        traps=("socket: Connection closed by remote peer",),
    ),
    Rule(
        name="nccl-peer",
        pattern=r"ncclRemoteError|ncclSystemError.*(socket|connection|peer)|NCCL.*(remote process exited|"
        r"Connection (closed|reset) by (remote )?peer|socketProgress|Call to (recv|connect|send).*failed)|"
        r"Net(work)? .*peer .* closed",
        kind=FailureKind.NETWORK,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        source="nccl: src/misc/socket.cc; pytorch: torch/csrc/distributed/c10d/NCCLUtils.cpp",
        examples=(
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
            "a:7:9 [0] NCCL WARN Net : Connection closed by remote peer b<40012>",
        ),
        traps=("a:7:9 [0] NCCL INFO Connected all peers",),
    ),
    Rule(
        name="nccl-watchdog",
        pattern=r"Watchdog caught collective operation timeout|ProcessGroupNCCL.*[Tt]imeout|"
        r"Some NCCL operations have failed or timed out|NCCL watchdog thread terminated|collective timeout",
        kind=FailureKind.HANG,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        advice="see what the other ranks did: tony stacks while it hangs, or TORCH_NCCL_TRACE_BUFFER_SIZE",
        source="pytorch: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
        examples=(
            (
                "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
                "Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
            ),
        ),
        traps=("ProcessGroupNCCL initialization options: size 2",),
    ),
    Rule(
        name="nccl-error",
        pattern=r"ncclUnhandledCudaError|ncclInternalError|ncclInvalidUsage|ncclSystemError|NCCL error",
        kind=FailureKind.ACCELERATOR,
        retry=True,
        advice='set NCCL_DEBUG = "INFO" below [env] to see which call failed',
        source="nccl: src/nccl.h.in; pytorch: torch/csrc/distributed/c10d/NCCLUtils.hpp",
        examples=("torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled cuda error",),
        traps=("NCCL version 2.21.5+cuda12.4",),
    ),
)
