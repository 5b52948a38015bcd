"""Train on handwritten digits with DistributedDataParallel; every rank runs this same program.

init_process_group finds its peers by MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE, which tony sets.
Works with PyTorch 1.13 and later.
"""

import argparse
import gc
from datetime import timedelta

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from checkpoints import Checkpoints

BATCH = 64  # images per step, over all ranks


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--checkpoints", default="", help="where to keep them, see checkpoints.py; none if empty")
    options = parser.parse_args()

    # PyTorch waits half an hour for a peer that is missing or hangs.
    dist.init_process_group("gloo", timeout=timedelta(minutes=2))
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank}: joined, {world} ranks train together", flush=True)

    train, test = load_data()
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    sampler = DistributedSampler(train, seed=1)  # each rank its own share, another one in every epoch
    batches = DataLoader(train, batch_size=BATCH // world, sampler=sampler)

    kept = Checkpoints(options.checkpoints) if options.checkpoints else None
    done = kept.steps()[-1] if kept and kept.steps() else 0  # epochs
    if done:
        with kept.reading(done) as folder:
            state = torch.load(folder / "state.pt")
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        print(f"rank {rank}: continues after epoch {done}", flush=True)

    for epoch in range(done, options.epochs):
        sampler.set_epoch(epoch)
        for images, labels in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()  # averages the gradients over all ranks
            optimizer.step()
        if rank == 0:
            print(f"rank 0: epoch {epoch + 1}/{options.epochs}, loss {loss.item():.3f}", flush=True)
            if kept:
                with kept.writing(epoch + 1) as folder:
                    state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
                    torch.save(state, folder / "state.pt")

    # Each rank judges every world-th of the held-out images; the sums are those of all ranks.
    images, labels = test[rank::world]
    with torch.no_grad():
        right = (model.module(images).argmax(dim=1) == labels).sum()
    counts = torch.tensor([float(right), float(len(labels))])
    dist.all_reduce(counts)
    if rank == 0:
        print(f"rank 0: held-out accuracy {counts[0] / counts[1]:.2%}", flush=True)
    dist.barrier()
    del model, optimizer  # they hold the process group, whose threads must end before the interpreter does
    gc.collect()
    dist.destroy_process_group()


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Training and held-out digits, the same split in every rank."""
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16.0, labels, test_size=0.2, random_state=1, stratify=labels)
    train_x, test_x = (torch.tensor(part, dtype=torch.float32) for part in split[:2])
    train_y, test_y = (torch.tensor(part, dtype=torch.int64) for part in split[2:])
    return TensorDataset(train_x, train_y), TensorDataset(test_x, test_y)


if __name__ == "__main__":
    main()
