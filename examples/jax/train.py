"""Train on handwritten digits with JAX; every process runs this same program.

With framework = "jax", jax.distributed.initialize() finds the other processes without arguments. The rest is ordinary
JAX: a mesh over the devices of all processes, batches split along it, weights copied to each.
"""

import argparse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from checkpoints import Checkpoints

BATCH = 128  # images per step, over all processes
RATE = 0.3
CHECKPOINT_EVERY = 25  # steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoints", default="", help="where to keep them, see checkpoints.py; none if empty")
    options = parser.parse_args()

    jax.distributed.initialize()
    me, world = jax.process_index(), jax.process_count()
    mesh = Mesh(jax.devices(), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))  # along the first axis
    copied = NamedSharding(mesh, PartitionSpec())
    print(f"process {me}: joined, {world} processes with {jax.device_count()} devices", flush=True)

    # Collectives: every device holds its number, and all get the sum.
    numbers = jax.make_array_from_process_local_data(split, np.full(jax.local_device_count(), me + 1.0))
    add_up = partial(jax.lax.psum, axis_name="data")
    add_up = jax.shard_map(add_up, mesh=mesh, in_specs=split.spec, out_specs=copied.spec)
    total = jax.jit(add_up)(numbers).addressable_data(0)[0]
    print(f"process {me}: {me + 1} and the other processes' numbers add up to {total:.0f}", flush=True)

    train_x, test_x, train_y, test_y = load_data()
    kept = Checkpoints(options.checkpoints) if options.checkpoints else None
    done, weights = newest(kept) if kept else (0, initial_weights())
    if done:
        print(f"process {me}: continues from step {done}", flush=True)
    weights = jax.device_put(weights, copied)
    pick = np.random.default_rng([me, done])  # each process draws its own part of every batch
    for step in range(done + 1, options.steps + 1):
        mine = pick.integers(len(train_x), size=BATCH // world)
        images = jax.make_array_from_process_local_data(split, train_x[mine])
        labels = jax.make_array_from_process_local_data(split, train_y[mine])
        weights, loss = train_step(weights, images, labels)
        if me == 0 and step % CHECKPOINT_EVERY == 0:
            print(f"process 0: step {step}/{options.steps}, loss {loss:.3f}", flush=True)
            if kept:
                with kept.writing(step) as folder:
                    np.savez(folder / "weights.npz", **own_copy(weights))

    if me == 0:
        own = own_copy(weights)
        share = jnp.mean(jnp.argmax(logits_of(own, test_x), axis=1) == test_y)
        print(f"process 0: held-out accuracy {share:.2%}", flush=True)


@jax.jit
def train_step(weights: dict, images: jax.Array, labels: jax.Array) -> tuple[dict, jax.Array]:
    """One step of gradient descent; JAX adds the sums between the processes, because the batch is split."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, images, labels)
    return jax.tree.map(lambda weight, gradient: weight - RATE * gradient, weights, gradients), loss


def loss_of(weights: dict, images: jax.Array, labels: jax.Array) -> jax.Array:
    logs = jax.nn.log_softmax(logits_of(weights, images))
    return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], axis=1))


def logits_of(weights: dict, images: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(images @ weights["first"] + weights["first_bias"])
    return hidden @ weights["second"] + weights["second_bias"]


def own_copy(weights: dict) -> dict:
    """Every process holds all the weights, so it can use its copy alone."""
    return jax.tree.map(lambda weight: weight.addressable_data(0), weights)


def newest(kept: Checkpoints) -> tuple[int, dict]:
    """The newest checkpoint and its step; step 0 if there is none."""
    steps = kept.steps()
    if not steps:
        return 0, initial_weights()
    with kept.reading(steps[-1]) as folder, np.load(folder / "weights.npz") as arrays:
        return steps[-1], dict(arrays)


def initial_weights() -> dict:
    """The same in every process, because the seed is."""
    random = np.random.default_rng(1)
    return {
        "first": random.normal(0.0, 0.1, (64, 96)).astype("float32"),
        "first_bias": np.zeros(96, "float32"),
        "second": random.normal(0.0, 0.1, (96, 10)).astype("float32"),
        "second_bias": np.zeros(10, "float32"),
    }


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images, held-out images, training labels, held-out labels; the same split in every process."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32")  # 1797 images of 8 x 8 pixels, each 0 to 16
    return train_test_split(images, labels.astype("int32"), test_size=0.2, random_state=1, stratify=labels)


if __name__ == "__main__":
    main()
