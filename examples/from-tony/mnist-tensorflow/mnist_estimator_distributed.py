"""What `tf.estimator.train_and_evaluate` did, now that TensorFlow has no Estimators: train, keep checkpoints, evaluate.

TF_CONFIG says which role this process has. The chief and the workers train together, with the loop of mirrored.py;
the chief keeps checkpoints and summaries in --model_dir. An evaluator, if the job has one, judges every checkpoint
meanwhile. Started again, the job continues from the newest checkpoint. Without a chief, worker 0 is it.
"""

import argparse
import tempfile
from pathlib import Path

import tensorflow as tf

import images
import mirrored

PATIENCE = 300  # seconds that an evaluator waits for the next checkpoint
LARGEST_KEPT = 3  # checkpoints


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", default="output", help="a folder that all tasks see")
    parser.add_argument("--data_dir", default="", help="a folder with mnist.npz; without one, scikit-learn's digits")
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--learning_rate", type=float, default=0.001)
    parser.add_argument("--train_epoch", type=int, default=20)
    parser.add_argument("--batch_size", type=int, default=64, help="over all processes")
    parser.add_argument("--max_steps", type=int, default=300_000)
    parser.add_argument("--save_checkpoints_steps", type=int, default=200)
    options = parser.parse_args()

    data = images.load(options.data_dir)
    last = min(options.max_steps, options.train_epoch * (len(data[0]) // options.batch_size))
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "evaluator":
        evaluate(options, data, last)
    else:
        train(options, data, last)


def train(options: argparse.Namespace, data: images.Data, last: int) -> None:
    """The chief and every worker."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # returns when all the peers are there
    resolver = strategy.cluster_resolver
    me, is_chief = f"{resolver.task_type}:{resolver.task_id}", strategy.extended.should_checkpoint
    print(f"{me}: joined, {strategy.num_replicas_in_sync} processes train together")

    train_x, test_x, train_y, test_y = data
    tf.keras.utils.set_random_seed(1)
    batches = mirrored.batches(strategy, train_x, train_y, options.batch_size)
    with strategy.scope():
        model = build_classifier(train_x.shape[1], options.dropout)
        optimizer = tf.keras.optimizers.Adam(options.learning_rate)
        optimizer.build(model.trainable_variables)  # now, so that a checkpoint can fill its variables
    step = tf.Variable(0, dtype=tf.int64)  # each process counts for itself
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    newest = tf.train.latest_checkpoint(options.model_dir)
    if newest:
        checkpoint.restore(newest).assert_consumed()
        print(f"{me}: continues from step {int(step)}")

    take = mirrored.step_of(strategy, model, optimizer)
    with tempfile.TemporaryDirectory() as scratch:
        # Saving is a step that all processes take together; only the chief's copy is kept.
        place = options.model_dir if is_chief else scratch
        manager = tf.train.CheckpointManager(checkpoint, place, max_to_keep=LARGEST_KEPT, checkpoint_name="model")
        with tf.summary.create_file_writer(place).as_default():
            while step < last:
                loss = take(next(batches), options.batch_size)
                now = int(step.assign_add(1))
                tf.summary.scalar("loss", loss, step=now)
                if now % options.save_checkpoints_steps == 0 or now == last:
                    manager.save(checkpoint_number=now)
                    if is_chief:
                        print(f"{me}: step {now}/{last}, loss {loss:.3f}")
    if is_chief:
        print(f"{me}: held-out accuracy {mirrored.accuracy(model, test_x, test_y):.2%}")


def evaluate(options: argparse.Namespace, data: images.Data, last: int) -> None:
    """The evaluator: judge the checkpoints as they come, up to the last one. It takes no part in the training."""
    _, test_x, _, test_y = data
    model = build_classifier(test_x.shape[1], options.dropout)
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, step=step)
    with tf.summary.create_file_writer(str(Path(options.model_dir, "eval"))).as_default():
        for path in tf.train.checkpoints_iterator(options.model_dir, timeout=PATIENCE):
            checkpoint.restore(path).expect_partial()  # the optimizer's part is not needed here
            share = mirrored.accuracy(model, test_x, test_y)
            tf.summary.scalar("accuracy", share, step=int(step))
            print(f"evaluator:0: step {int(step)}, held-out accuracy {share:.2%}")
            if step >= last:
                return
    raise SystemExit(f"evaluator:0: no new checkpoint for {PATIENCE} s; has training died?")


def build_classifier(side: int, dropout: float) -> tf.keras.Model:
    """Two hidden layers; the last one gives logits."""
    return tf.keras.Sequential(
        [
            tf.keras.Input(shape=(side, side)),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(256, activation="relu"),
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dropout(dropout),
            tf.keras.layers.Dense(10),
        ]
    )


if __name__ == "__main__":
    main()
