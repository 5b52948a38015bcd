"""Handwritten digits for the three trainers: scikit-learn's, or those of a folder with `mnist.npz`."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def load(folder: str = "") -> Data:
    """Training images, held-out images, training labels, held-out labels; the same in every process.

    Images are squares of numbers from 0 to 1: 28 x 28 if `folder` has MNIST as Keras keeps it, else 8 x 8.
    """
    mnist = Path(folder, "mnist.npz")
    if folder and mnist.exists():
        with np.load(mnist) as arrays:
            return (
                (arrays["x_train"] / 255.0).astype("float32"),
                (arrays["x_test"] / 255.0).astype("float32"),
                arrays["y_train"].astype("int64"),
                arrays["y_test"].astype("int64"),
            )
    digits = load_digits()
    images = (digits.images / 16.0).astype("float32")  # 1797 of them
    return train_test_split(images, digits.target.astype("int64"), test_size=0.2, random_state=1)
