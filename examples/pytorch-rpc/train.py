"""A parameter server with torch.distributed.rpc; the server and the trainers run this same program.

`init_rpc` finds the others by MASTER_ADDR and MASTER_PORT. JOB_NAME and TASK_INDEX tell which role this is; RANK and
WORLD_SIZE count over all roles. The server ends when all trainers have called `rpc.shutdown`.
"""

import os
import threading

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed import rpc

STEPS = 200


class ParameterServer:
    """Holds the weights; trainers fetch them and push gradients, each at its own pace."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.005)
        self.lock = threading.Lock()


SERVER = ParameterServer()  # in the trainers it stays unused


def fetch_weights() -> list[torch.Tensor]:
    """Return the newest weights. Called by trainers, runs on the server."""
    with SERVER.lock:
        return [weight.detach().clone() for weight in SERVER.model.parameters()]


def push_gradients(gradients: list[torch.Tensor]) -> None:
    """Apply one trainer's gradients. Called by trainers, runs on the server."""
    with SERVER.lock:
        for weight, gradient in zip(SERVER.model.parameters(), gradients, strict=True):
            weight.grad = gradient
        SERVER.optimizer.step()


def train(index: int, trainers: int) -> None:
    images, labels = load_digits(return_X_y=True)
    inputs = torch.tensor(images / 16.0, dtype=torch.float32)[index::trainers]
    targets = torch.tensor(labels, dtype=torch.int64)[index::trainers]
    model = ParameterServer().model
    torch.manual_seed(index)
    for _ in range(STEPS):
        with torch.no_grad():
            for mine, newest in zip(model.parameters(), rpc.rpc_sync("ps:0", fetch_weights), strict=True):
                mine.copy_(newest)
        chosen = torch.randint(len(targets), (64,))
        model.zero_grad()
        nn.functional.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
        rpc.rpc_sync("ps:0", push_gradients, args=([weight.grad for weight in model.parameters()],))
    correct = (model(inputs).argmax(dim=1) == targets).float().mean()
    print(f"trainer {index}: accuracy {correct:.2%}", flush=True)


def main() -> None:
    role, index = os.environ["JOB_NAME"], int(os.environ["TASK_INDEX"])
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc(f"{role}:{index}", rank=rank, world_size=world)
    if role == "trainer":
        train(index, trainers=world - 1)
    rpc.shutdown()


if __name__ == "__main__":
    main()
