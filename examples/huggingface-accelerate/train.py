"""Train on handwritten digits with accelerate; every rank runs this same program.

`Accelerator()` finds its peers by MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE, which tony sets, so neither
`accelerate launch` nor `accelerate config` is needed.
"""

import argparse
import gc

import torch
import torch.distributed as dist
from accelerate import Accelerator
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()

    accelerator = Accelerator()
    print(f"rank {accelerator.process_index}: joined, {accelerator.num_processes} ranks", flush=True)
    torch.manual_seed(1)
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16.0, labels, test_size=0.2, random_state=1, stratify=labels)
    train_x, test_x = (torch.tensor(part, dtype=torch.float32) for part in split[:2])
    train_y, test_y = (torch.tensor(part, dtype=torch.int64) for part in split[2:])
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    model, optimizer, batches, held_out = accelerator.prepare(
        model,
        torch.optim.Adam(model.parameters(), lr=0.005),
        DataLoader(TensorDataset(train_x, train_y), batch_size=32, shuffle=True),
        DataLoader(TensorDataset(test_x, test_y), batch_size=32),
    )
    for epoch in range(options.epochs):
        for inputs, targets in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), targets)
            accelerator.backward(loss)  # averages the gradients over all ranks
            optimizer.step()
        if accelerator.is_main_process:
            print(f"epoch {epoch + 1}/{options.epochs}, loss {loss.item():.3f}", flush=True)

    correct = count = 0
    for inputs, targets in held_out:
        with torch.no_grad():
            predictions = model(inputs).argmax(dim=1)
        predictions, targets = accelerator.gather_for_metrics((predictions, targets))
        correct += int((predictions == targets).sum())
        count += len(targets)
    if accelerator.is_main_process:
        print(f"held-out accuracy {correct / count:.2%}", flush=True)
    accelerator.wait_for_everyone()
    accelerator.free_memory()
    del model, optimizer  # they hold the process group, whose threads must end before the interpreter does
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
