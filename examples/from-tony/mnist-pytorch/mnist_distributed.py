"""A linear classifier trained by all workers together; every rank runs this same program.

INIT_METHOD, RANK and WORLD, which tony sets, say where rank 0 listens, which rank this is and how many there are. The
gradients are averaged by hand, one `all_reduce` for each of them: the lowest level of torch.distributed.
"""

import argparse
import os
from datetime import timedelta

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import distributed, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

PATIENCE = timedelta(minutes=2)  # without a limit, a peer that never comes is waited for half an hour


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="gloo", help="gloo, nccl or mpi")
    parser.add_argument("-i", "--init-method", default=os.environ.get("INIT_METHOD", "tcp://127.0.0.1:23456"))
    parser.add_argument("-r", "--rank", type=int, default=int(os.environ.get("RANK", "0")))
    parser.add_argument("-s", "--world-size", type=int, default=int(os.environ.get("WORLD", "1")))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--no-cuda", action="store_true")
    parser.add_argument("-lr", "--learning-rate", type=float, default=1e-2)
    parser.add_argument("--batch-size", type=int, default=128, help="of each rank")
    options = parser.parse_args()

    distributed.init_process_group(
        options.backend,
        init_method=options.init_method,
        rank=options.rank,
        world_size=options.world_size,
        timeout=PATIENCE,
    )
    print(f"rank {options.rank}: joined, {options.world_size} ranks train together", flush=True)
    train(options, torch.device("cuda" if torch.cuda.is_available() and not options.no_cuda else "cpu"))
    distributed.barrier()
    distributed.destroy_process_group()


def train(options: argparse.Namespace, device: torch.device) -> None:
    """All epochs; after each of them, rank 0 says how well the model does."""
    learn, judge = load_data()
    sampler = DistributedSampler(learn, seed=1)  # each rank its own share, another one in every epoch
    batches = DataLoader(learn, batch_size=options.batch_size, sampler=sampler)
    torch.manual_seed(1)  # the same weights everywhere
    model = nn.Linear(64, 10).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate)

    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for images, labels in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            average_gradients(model, options.world_size)
            optimizer.step()
        if options.rank == 0:
            share = accuracy(model, *(part.to(device) for part in judge.tensors))
            progress = f"epoch {epoch + 1}/{options.epochs}, loss {loss.item():.3f}, accuracy {share:.2%}"
            print(f"rank 0: {progress}", flush=True)


def average_gradients(model: nn.Module, world: int) -> None:
    """Gives every rank the mean of all ranks' gradients."""
    for parameter in model.parameters():
        distributed.all_reduce(parameter.grad)
        parameter.grad /= world


def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """The share of images whose largest output is the right one."""
    with torch.no_grad():
        return (model(images).argmax(dim=1) == labels).float().mean().item()


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Training and held-out digits, the same split in every rank."""
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16.0, labels, test_size=0.2, random_state=1, stratify=labels)
    train_x, test_x = (torch.tensor(part, dtype=torch.float32) for part in split[:2])
    train_y, test_y = (torch.tensor(part, dtype=torch.int64) for part in split[2:])
    return TensorDataset(train_x, train_y), TensorDataset(test_x, test_y)


if __name__ == "__main__":
    main()
