"""What the trainers and the evaluator share: the data, and the network that reads it."""

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images, held-out images, training labels, held-out labels; the same split in every process."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32")  # 1797 images of 8 x 8 pixels, each 0 to 16
    return train_test_split(images, labels.astype("int64"), test_size=0.2, random_state=1, stratify=labels)


def build_model() -> tf.keras.Model:
    """Two layers are enough for digits of 8 x 8 pixels; the last one gives logits."""
    return tf.keras.Sequential(
        [
            tf.keras.Input(shape=(64,)),
            tf.keras.layers.Dense(96, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )


def accuracy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The share of images whose largest logit is the right one."""
    return tf.reduce_mean(tf.cast(tf.argmax(logits, axis=1) == labels, tf.float32))
