"""Train on handwritten digits with Horovod; every rank runs this same program.

hvd.init() finds its peers by the variables HOROVOD_*, which tony sets. Works with PyTorch 1.13 and Horovod 0.28.
"""

import argparse

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

BATCH = 64  # images per step, over all ranks


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()

    hvd.init()
    together = hvd.allreduce(torch.tensor(float(hvd.rank())), op=hvd.Sum)
    print(f"rank {hvd.rank()}: joined, {hvd.size()} ranks, their numbers add up to {together:.0f}", flush=True)

    train, test = load_data()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    # Every rank begins with rank 0's weights, and takes the mean of all gradients at each step.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.005), model.named_parameters())
    sampler = DistributedSampler(train, hvd.size(), hvd.rank(), seed=1)  # each rank its own share
    batches = DataLoader(train, batch_size=BATCH // hvd.size(), sampler=sampler)

    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for images, labels in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        mean = hvd.allreduce(loss.detach(), op=hvd.Average)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {mean:.3f}", flush=True)

    if hvd.rank() == 0:
        images, labels = test.tensors
        right = (model(images).argmax(1) == labels).float().mean().item()
        print(f"accuracy on images never seen: {100 * right:.1f} %", flush=True)


def load_data() -> tuple:
    """1797 images of 8 by 8 pixels, carried by scikit-learn; a quarter is kept for the test."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images / 16.0, labels, test_size=0.25, random_state=1)
    train_x, test_x = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
    train_y, test_y = (torch.tensor(part, dtype=torch.int64) for part in parts[2:])
    return TensorDataset(train_x, train_y), TensorDataset(test_x, test_y)


if __name__ == "__main__":
    main()
