"""PyTorch: gloo, the store, rendezvous, data loaders."""

from __future__ import annotations

from tony.diagnosis.rule import Rule
from tony.model.diagnosis import FailureKind, LineMeaning

RULES = (
    Rule(
        name="gloo-barrier",
        pattern=r"Ranks? [\d, ]+ failed to pass monitoredBarrier in \d+ ms",
        kind=FailureKind.HANG,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        advice="see what the ranks did that the line names: they did not come to the barrier",
        source="pytorch: torch/csrc/distributed/c10d/ProcessGroupGloo.cpp",
        examples=("[E ProcessGroupGloo.cpp:138] [Rank 0]: Ranks 3 failed to pass monitoredBarrier in 1800000 ms",),
        traps=("Rank 3 passed monitoredBarrier",),
    ),
    Rule(
        name="gloo-peer",
        pattern=r"\[[^\]]*gloo/transport/[^\]]*\].*(Connection (closed|reset|refused)|Read error|Write error|"
        r"writev|Broken pipe|Socket closed|closed by peer)|"
        r"gloo::(EnforceNotMet|IoException)|Application timeout caused pair closure|"
        r"Rank \d+ successfully reached monitoredBarrier, but received errors|monitoredBarrier",
        kind=FailureKind.NETWORK,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        source="gloo: gloo/transport/tcp/pair.cc, unbound_buffer.cc; pytorch: ProcessGroupGloo.cpp",
        examples=(
            (
                "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
                "[127.0.0.1]:41234"
            ),
        ),
        traps=("using backend gloo",),
    ),
    Rule(
        name="gloo-timeout",
        pattern=r"\[[^\]]*gloo/transport/[^\]]*\].*([Tt]imed out)|gloo::TimeoutException",
        kind=FailureKind.HANG,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        advice="see what the other ranks did while this one waited: tony stacks",
        source="gloo: gloo/transport/tcp/unbound_buffer.cc",
        examples=(
            (
                "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting "
                "1800000ms for recv operation to complete"
            ),
        ),
        traps=("Timed out waiting for the debugger",),
    ),
    Rule(
        name="store-peer",
        pattern=r"(DistNetworkError|DistStoreError).*(Connection (was likely closed|reset|closed)|Broken pipe|"
        r"failed to recv|Connection reset by peer)|recvVector failed|failed to recv, got 0 bytes|"
        r"\[c10d\].*(Broken pipe|Connection reset by peer|recvValue failed)",
        kind=FailureKind.NETWORK,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        source="pytorch: torch/csrc/distributed/c10d/TCPStore.cpp, Utils.hpp",
        examples=(
            "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed.",
            "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
        ),
        traps=("[c10d] The store listens on port 29500",),
    ),
    Rule(
        name="store-timeout",
        pattern=r"(DistStoreError|DistNetworkError).*([Tt]imed? ?out|wait timeout|clients joined)|"
        r"RendezvousTimeoutError|RendezvousClosedError|Socket Timeout|wait timeout after \d+ms|"
        r"\[c10d\] The client socket has timed out|The client socket has failed to connect",
        kind=FailureKind.RENDEZVOUS,
        meaning=LineMeaning.CONSEQUENCE,
        retry=True,
        advice="every rank must call init_process_group with the same world size; see which task did not get there",
        source="pytorch: torch/csrc/distributed/c10d/TCPStore.cpp, socket.cpp; elastic/rendezvous/api.py",
        examples=(
            "torch.distributed.DistStoreError: Timed out after 31 seconds waiting for clients. 1/2 clients joined.",
            "torch.distributed.DistStoreError: wait timeout after 10000ms, keys: /default_pg/0//cpu//0/1",
        ),
        traps=("wait for all 2 clients to join the store",),
    ),
    Rule(
        name="address-in-use",
        pattern=r"The server socket has failed to (listen|bind)|DistNetworkError.*EADDRINUSE",
        kind=FailureKind.RENDEZVOUS,
        retry=True,
        advice="use the ports that tony reserves (MASTER_PORT, TONY_PORT) instead of a fixed one",
        source="pytorch: torch/csrc/distributed/c10d/socket.cpp; Linux: errno(3)",
        examples=(
            (
                "RuntimeError: The server socket has failed to listen on any local network address. The server socket "
                "has failed to bind to [::]:29500 (errno: 98 - Address already in use)."
            ),
        ),
        traps=("The server socket has started to listen on [::]:29500",),
    ),
    Rule(
        name="rank-unset",
        pattern=r"Error initializing torch\.distributed using env:// rendezvous: environment variable \w+ expected",
        kind=FailureKind.RENDEZVOUS,
        advice='set framework = "pytorch" (tony run: --framework pytorch), which sets RANK, WORLD_SIZE, MASTER_ADDR '
        "and MASTER_PORT",
        source="pytorch: torch/distributed/rendezvous.py",
        examples=(
            (
                "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK "
                "expected, but not set"
            ),
        ),
        traps=("environment variable RANK is 0",),
    ),
    Rule(
        name="backend-missing",
        pattern=r"Distributed package doesn't have (NCCL|MPI|UCC|GLOO)",
        kind=FailureKind.USER_CODE,
        advice='this PyTorch lacks the backend: call init_process_group("gloo") on CPUs, or install a CUDA build',
        source="pytorch: torch/distributed/distributed_c10d.py",
        examples=("RuntimeError: Distributed package doesn't have NCCL built in",),
        traps=("Distributed package has NCCL built in",),
    ),
    Rule(
        name="shared-memory",
        pattern=r"DataLoader worker \(pid\(?s?\)? [\d, ]+\).*(killed by signal: Bus error|shared memory)|"
        r"Unexpected bus error encountered in worker|unable to (open|mmap|write to|allocate) .*shared memory|"
        r"(No space left|[Bb]us error).*/dev/shm|/dev/shm.*(No space left|[Bb]us error)|insufficient shared memory",
        kind=FailureKind.MEMORY,
        advice="the shared memory is full: use a larger /dev/shm, smaller batches, or fewer workers in the DataLoader",
        source="pytorch: torch/csrc/DataLoader.cpp; torch/utils/data/_utils/signal_handling.py",
        examples=(
            (
                "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory "
                "(shm)."
            ),
        ),
        traps=("FileNotFoundError: [Errno 2] No such file or directory: '/dev/shm/cache/x'",),
    ),
    Rule(
        name="worker-process-killed",
        pattern=r"DataLoader worker \(pid\(?s?\)? [\d, ]+\).*killed by signal: Killed|"
        r"BrokenProcessPool|TerminatedWorkerError|WorkerLostError|"
        r"(Actor|Node)DiedError: |RayActorError: |WorkerCrashedError|terminated with signal SIGKILL",
        kind=FailureKind.MEMORY,
        retry=True,
        advice="a worker process was killed, most often because memory ran out: request more, or use fewer workers",
        source="pytorch: torch/csrc/DataLoader.cpp; cpython: Lib/concurrent/futures/process.py; joblib: loky; celery; "
        "ray: python/ray/exceptions.py",
        examples=(
            "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. ",
            "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly",
        ),
        traps=("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Aborted. ",),
    ),
    Rule(
        name="cpu-allocation",
        pattern=r"DefaultCPUAllocator: (can't|not enough memory)|std::bad_alloc|Cannot allocate memory|"
        r"^MemoryError\b|\bMemoryError(:|$)|_ArrayMemoryError|"
        r"RESOURCE_EXHAUSTED: (Out of memory|OOM)|ResourceExhaustedError",
        kind=FailureKind.MEMORY,
        advice="request more memory for the role, or load less at a time",
        source="pytorch: c10/core/impl/alloc_cpu.cpp; libstdc++; numpy: numpy/_core/_exceptions.py",
        examples=(
            (
                "RuntimeError: [enforce fail at alloc_cpu.cpp:118] . DefaultCPUAllocator: can't allocate memory: you "
                "tried to allocate 400000000000 bytes."
            ),
            "MemoryError",
            "terminate called after throwing an instance of 'std::bad_alloc'",
        ),
        traps=("set memory = 4g",),
    ),
    Rule(
        name="state-dict",
        pattern=r"Error\(s\) in loading state_dict for|size mismatch for [\w.]+: copying a param",
        kind=FailureKind.USER_CODE,
        advice="the checkpoint is of another model: point the program at a fresh folder, or change the model back",
        source="pytorch: torch/nn/modules/module.py",
        examples=("RuntimeError: Error(s) in loading state_dict for Net:",),
        traps=("loading state_dict for Net",),
    ),
    Rule(
        name="checkpoint-broken",
        pattern=r"PytorchStreamReader failed|invalid header or archive is corrupted|"
        r"(_pickle|pickle)\.UnpicklingError|Ran out of input|unexpected EOF, expected",
        kind=FailureKind.USER_DATA,
        advice="the file was cut off: delete it and resume from the one before; write to a draft and rename it",
        source="pytorch: caffe2/serialize/inline_container.cc; torch/serialization.py",
        examples=(
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
            "EOFError: Ran out of input",
        ),
        traps=("ran out of input data after 3 epochs",),
    ),
    Rule(
        name="checkpoint-write",
        pattern=r"PytorchStreamWriter failed|file write failed|iostream error",
        kind=FailureKind.STORAGE,
        advice="free or add space where the program writes its checkpoints",
        source="pytorch: caffe2/serialize/inline_container.cc",
        examples=("RuntimeError: [enforce fail at inline_container.cc:603] . PytorchStreamWriter failed writing file",),
        traps=("file write finished",),
    ),
    Rule(
        name="tensor-shape",
        pattern=r"RuntimeError: (mat1 and mat2 shapes|The size of tensor|shape '|Expected all tensors|"
        r"expected scalar type|Trying to backward|element \d+ of tensors|one of the variables needed|"
        r"Expected input batch_size|Given groups=|Sizes of tensors|stack expects|Boolean value of Tensor|"
        r"Expected to have finished reduction)",
        kind=FailureKind.USER_CODE,
        source="pytorch: aten/src/ATen/native, torch/csrc/autograd",
        examples=("RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x3 and 5x2)",),
        traps=("The size of tensor a is 3",),
    ),
)
