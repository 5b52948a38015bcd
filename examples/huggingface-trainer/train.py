"""Train on handwritten digits with Hugging Face's Trainer; every rank runs this same program.

The Trainer finds its peers by MASTER_ADDR, MASTER_PORT, RANK, LOCAL_RANK and WORLD_SIZE, which tony sets.
"""

import argparse
import gc

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import Dataset
from transformers import EvalPrediction, Trainer, TrainingArguments


class Digits(Dataset):
    """Images of 64 values between 0 and 1, with their labels."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images = torch.tensor(images / 16.0, dtype=torch.float32)
        self.targets = torch.tensor(labels, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"images": self.images[index], "labels": self.targets[index]}


class Classifier(nn.Module):
    """Returns loss and logits, as the Trainer expects them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.layers(images)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def measure_accuracy(prediction: EvalPrediction) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(axis=1) == prediction.label_ids).mean())}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--out", default="checkpoints")
    options = parser.parse_args()

    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.2, random_state=1, stratify=labels)
    arguments = TrainingArguments(
        output_dir=options.out,
        num_train_epochs=options.epochs,
        learning_rate=0.005,
        per_device_train_batch_size=32,
        per_device_eval_batch_size=64,
        use_cpu=not torch.cuda.is_available(),
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=1,
    )
    print(f"rank {arguments.process_index}: joined, {arguments.world_size} ranks", flush=True)
    trainer = Trainer(
        model=Classifier(),
        args=arguments,
        train_dataset=Digits(train_x, train_y),
        eval_dataset=Digits(test_x, test_y),
        compute_metrics=measure_accuracy,
    )
    trainer.train()
    accuracy = trainer.evaluate()["eval_accuracy"]
    if arguments.process_index == 0:
        print(f"held-out accuracy {accuracy:.2%}", flush=True)
    dist.barrier()
    del trainer  # it holds the process group, whose threads must end before the interpreter does
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
