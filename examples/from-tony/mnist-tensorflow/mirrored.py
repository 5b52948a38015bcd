"""What the Keras trainer and the one that was an Estimator share: a training loop over several processes.

TF_CONFIG says who the peers are. Each step, every process computes gradients on its own share of the batch, and all
apply the sum, so that they hold the same weights all the time. `model.fit` of Keras 3 cannot do this.
"""

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf


def batches(strategy: tf.distribute.Strategy, images: np.ndarray, labels: np.ndarray, size: int) -> Iterator:
    """Batches without end, of `size` images over all processes; each process gets its own share of every one."""
    # The seed is fixed because every process shuffles the whole set and then keeps each n-th image.
    data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.shuffle(len(images), seed=1).repeat().batch(size)
    sharding = tf.data.Options()
    sharding.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return iter(strategy.experimental_distribute_dataset(data.with_options(sharding)))


def step_of(strategy: tf.distribute.Strategy, model: tf.keras.Model, optimizer: tf.keras.Optimizer) -> Callable:
    """A function that takes one step with a batch and the batch's size, and answers the loss."""

    def on_share(images: tf.Tensor, labels: tf.Tensor, size: int) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=True))
            # Gradients are summed over the processes: divide by the whole batch, not by the share.
            loss = tf.nn.compute_average_loss(losses, global_batch_size=size)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(batch: tuple[tf.Tensor, tf.Tensor], size: int) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(on_share, args=(*batch, size)), axis=None)

    return step


def accuracy(model: tf.keras.Model, images: np.ndarray, labels: np.ndarray) -> float:
    """The share of images whose largest output is the right one."""
    return float(np.mean(np.argmax(model(images), axis=1) == labels))
