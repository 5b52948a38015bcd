"""Train on handwritten digits; the chief and every worker run this same program.

TF_CONFIG, which tony sets, tells TensorFlow who the peers are and which of them this process is. Each step,
every process computes gradients on its own share of the batch, and all of them apply the sum: they hold
the same weights all the time. The chief alone writes to the output folder:

    checkpoints/    read again after a restart, and by evaluate.py; elsewhere, such as in HDFS, with --checkpoints
    logs/train/     loss and accuracy for TensorBoard
    model.keras     the trained model

`tony top` and the job's page show how far it is and when it has saved: tony.progress and tony.checkpoint tell them.
Those two are there wherever tony starts a program, whether its Python has tony or not.
"""

import argparse
import tempfile
from contextlib import nullcontext
from pathlib import Path

import tensorflow as tf

import tony
from checkpoints import Checkpoints
from model import accuracy, build_model, load_data

BATCH = 192  # images per step, over all processes
CHECKPOINT_EVERY = 20  # steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True, help="a folder that every task can see")
    parser.add_argument("--checkpoints", default="", help="where they are kept, if not in --out")
    parser.add_argument("--steps", type=int, default=240)
    options = parser.parse_args()
    out = options.out.expanduser()

    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # returns when all the peers are there
    resolver = strategy.cluster_resolver
    me = f"{resolver.task_type}:{resolver.task_id}"
    is_chief = strategy.extended.should_checkpoint
    print(f"{me}: joined, {strategy.num_replicas_in_sync} processes train together", flush=True)

    tf.keras.utils.set_random_seed(1)
    train_x, test_x, train_y, test_y = load_data()
    batches = distribute(strategy, train_x, train_y)
    with strategy.scope():
        model = build_model()
        optimizer = tf.keras.optimizers.Adam(0.005)
        optimizer.build(model.trainable_variables)  # now, so that a checkpoint can fill its variables
    step = tf.Variable(0, dtype=tf.int64)  # each process counts for itself

    def train_on_share(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            # Gradients are summed over the processes: divide by the whole batch, not by the share.
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss, accuracy(logits, labels)

    @tf.function
    def train_step(batch: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        loss, share = strategy.run(train_on_share, args=batch)
        return (
            strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None),
            strategy.reduce(tf.distribute.ReduceOp.MEAN, share, axis=None),
        )

    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    kept = Checkpoints(options.checkpoints or str(out / "checkpoints"))
    if kept.steps():
        with kept.reading(kept.steps()[-1]) as folder:
            checkpoint.read(str(folder / "state")).assert_consumed()
        print(f"{me}: continues from step {int(step)}", flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        logs = out if is_chief else Path(scratch)  # the chief's summaries alone are kept
        with tf.summary.create_file_writer(str(logs / "logs" / "train")).as_default():
            while step < options.steps:
                loss, share = train_step(next(batches))
                step.assign_add(1)
                now = int(step)
                tf.summary.scalar("loss", loss, step=now)
                tf.summary.scalar("accuracy", share, step=now)
                tony.progress(now, total=options.steps, loss=float(loss), accuracy=float(share))
                if now % CHECKPOINT_EVERY == 0 or now == options.steps:
                    # Saving is a step that all processes take together; only the chief's copy is kept.
                    told = tony.checkpoint(now) if is_chief else nullcontext()
                    with told, kept.writing(now) if is_chief else nullcontext(Path(scratch)) as folder:
                        checkpoint.write(str(folder / "state"))
                    tf.summary.flush()
                    progress = f"step {now}/{options.steps}, loss {loss:.3f}, accuracy {share:.3f}"
                    if is_chief:
                        print(f"{me}: {progress}", flush=True)

    if is_chief:
        held_out = float(accuracy(model(test_x), test_y))
        model.save(out / "model.keras")
        print(f"{me}: held-out accuracy {held_out:.2%}, model saved as {out / 'model.keras'}", flush=True)
    else:
        print(f"{me}: done after {int(step)} steps", flush=True)


def distribute(strategy: tf.distribute.Strategy, images: tf.Tensor, labels: tf.Tensor):
    """An endless iterator of batches; each process gets its own share of every one."""
    # The seed is fixed because every process shuffles the whole set and then keeps each n-th image.
    data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.shuffle(len(images), seed=1).repeat().batch(BATCH)
    sharding = tf.data.Options()
    sharding.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return iter(strategy.experimental_distribute_dataset(data.with_options(sharding)))


if __name__ == "__main__":
    main()
