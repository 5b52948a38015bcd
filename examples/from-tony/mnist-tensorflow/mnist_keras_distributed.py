"""A Keras model trained by several workers together (MultiWorkerMirroredStrategy).

TF_CONFIG, which tony sets, is all that TensorFlow needs. `model.fit` of Keras 3 does not work over several processes,
so the training loop is written out in mirrored.py. With the packages tf_keras installed and TF_USE_LEGACY_KERAS=1 in
the environment (`--shell_env TF_USE_LEGACY_KERAS=1`), an old script that calls `model.fit` runs as it is.
"""

import argparse
import json
import os
from pathlib import Path

import tensorflow as tf

import images
import mirrored

BATCH = 64  # images per step and worker


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--working-dir", type=Path, help="where worker 0 saves the model")
    parser.add_argument("--data-dir", default="", help="a folder with mnist.npz; without one, scikit-learn's digits")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps-per-epoch", type=int, default=70)
    options = parser.parse_args()

    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # returns when all the peers are there
    index = strategy.cluster_resolver.task_id or 0
    workers = number_of_workers()
    print(f"worker:{index}: joined, {workers} workers train together")

    tf.keras.utils.set_random_seed(1)
    train_x, test_x, train_y, test_y = images.load(options.data_dir)
    batches = mirrored.batches(strategy, train_x, train_y, BATCH * workers)
    with strategy.scope():
        model = build_model(train_x.shape[1])
        optimizer = tf.keras.optimizers.SGD(learning_rate=0.05, momentum=0.5)
        optimizer.build(model.trainable_variables)
    step = mirrored.step_of(strategy, model, optimizer)

    for epoch in range(options.epochs):
        loss = sum(step(next(batches), BATCH * workers) for _ in range(options.steps_per_epoch))
        if index == 0:
            print(f"worker:0: epoch {epoch + 1}/{options.epochs}, loss {loss / options.steps_per_epoch:.3f}")

    if index == 0:
        print(f"worker:0: held-out accuracy {mirrored.accuracy(model, test_x, test_y):.2%}")
        if options.working_dir:
            options.working_dir.mkdir(parents=True, exist_ok=True)
            model.save(options.working_dir / "model.keras")


def build_model(side: int) -> tf.keras.Model:
    """A small network with one convolution; the last layer gives logits."""
    return tf.keras.Sequential(
        [
            tf.keras.Input(shape=(side, side)),
            tf.keras.layers.Reshape((side, side, 1)),
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )


def number_of_workers() -> int:
    """As TF_CONFIG has it; 1 without."""
    return len(json.loads(os.environ.get("TF_CONFIG", '{"cluster": {"worker": [""]}}'))["cluster"]["worker"])


if __name__ == "__main__":
    main()
