"""Train on handwritten digits with a parameter server.

Every task runs this program; TF_CONFIG, which tony sets, says which role it has. Workers and parameter
servers serve the chief. The chief creates the weights on the parameter servers and hands out training steps;
whichever worker is free takes the next one, reads the weights, and applies its gradients without waiting
for the others.
"""

import argparse
import os

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from checkpoints import Checkpoints

BATCH = 64
HIDDEN = 96
RATE = 0.2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--checkpoints", default="", help="where to keep them, see checkpoints.py; none if empty")
    options = parser.parse_args()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "chief":
        train(resolver, options.steps, Checkpoints(options.checkpoints) if options.checkpoints else None)
    else:
        serve(resolver)


def serve(resolver: tf.distribute.cluster_resolver.TFConfigClusterResolver) -> None:
    """Do what the chief asks, until tony stops this task."""
    os.environ["GRPC_FAIL_FAST"] = "use_caller"  # report a lost peer at once instead of trying for ever
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    print(f"{resolver.task_type}:{resolver.task_id}: serving at {server.target}", flush=True)
    server.join()


def train(
    resolver: tf.distribute.cluster_resolver.TFConfigClusterResolver, steps: int, kept: Checkpoints | None
) -> None:
    """The chief: create the weights or read them, hand out the steps, judge the result."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)  # returns when all the servers are there
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    train_x, test_x, train_y, test_y = load_data()

    with strategy.scope():
        first = tf.Variable(tf.random.stateless_normal((64, HIDDEN), seed=(1, 1), stddev=0.1))
        first_bias = tf.Variable(tf.zeros((HIDDEN,)))
        second = tf.Variable(tf.random.stateless_normal((HIDDEN, 10), seed=(1, 2), stddev=0.1))
        second_bias = tf.Variable(tf.zeros((10,)))
    weights = (first, first_bias, second, second_bias)
    done = kept.steps()[-1] if kept and kept.steps() else 0
    if done:
        with kept.reading(done) as folder, np.load(folder / "weights.npz") as arrays:
            for weight, array in zip(weights, arrays.values(), strict=True):
                weight.assign(array)
        print(f"chief:0: continues from step {done}", flush=True)

    def logits_of(images: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(images @ first + first_bias) @ second + second_bias

    def local_batches() -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices((train_x, train_y))
        return data.shuffle(len(train_x)).repeat().batch(BATCH)

    @tf.function
    def train_step(batches) -> tf.Tensor:
        images, labels = next(batches)
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits_of(images))
            loss = tf.reduce_mean(losses)
        for variable, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            variable.assign_sub(RATE * gradient)
        return loss

    batches = iter(coordinator.create_per_worker_dataset(local_batches))
    for begin in range(done, steps, 100):
        count = min(100, steps - begin)
        losses = [coordinator.schedule(train_step, args=(batches,)) for _ in range(count)]
        coordinator.join()  # raises what a step raised
        mean = np.mean(coordinator.fetch(losses))
        print(f"chief:0: step {begin + count}/{steps}, loss {mean:.3f}", flush=True)
        if kept:
            with kept.writing(begin + count) as folder:
                np.savez(folder / "weights.npz", *(weight.numpy() for weight in weights))

    right = tf.argmax(logits_of(tf.constant(test_x)), axis=1) == test_y
    share = tf.reduce_mean(tf.cast(right, tf.float32))
    print(f"chief:0: held-out accuracy {share:.2%}", flush=True)


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images, held-out images, training labels, held-out labels."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32")  # 1797 images of 8 x 8 pixels, each 0 to 16
    return train_test_split(images, labels.astype("int64"), test_size=0.2, random_state=1, stratify=labels)


if __name__ == "__main__":
    main()
