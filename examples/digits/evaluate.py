"""Judge every checkpoint on the held-out digits while the others train; ends after the last one.

The evaluator is no part of the cluster that trains: it builds no distribution strategy and only reads the
folder that the chief writes. Its curve lies in logs/evaluation/, for TensorBoard.
"""

import argparse
from pathlib import Path

import tensorflow as tf

from model import accuracy, build_model, load_data

PATIENCE = 120  # seconds without a new checkpoint, after which training must have died


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True, help="the folder that the chief writes to")
    parser.add_argument("--steps", type=int, default=240, help="the step of the last checkpoint")
    options = parser.parse_args()
    out = options.out.expanduser()

    _, test_x, _, test_y = load_data()
    model = build_model()
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, step=step)
    print("evaluator: waiting for checkpoints", flush=True)

    judged = set()
    with tf.summary.create_file_writer(str(out / "logs" / "evaluation")).as_default():
        # The iterator tells of the newest checkpoint only; the state lists those that came meanwhile, too.
        for _ in tf.train.checkpoints_iterator(str(out / "checkpoints"), timeout=PATIENCE):
            for path in tf.train.get_checkpoint_state(str(out / "checkpoints")).all_model_checkpoint_paths:
                if path in judged:
                    continue
                judged.add(path)
                checkpoint.restore(path).expect_partial()  # the optimizer's part is not needed here
                logits = model(test_x)
                share = accuracy(logits, test_y)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(test_y, logits))
                tf.summary.scalar("accuracy", share, step=int(step))
                tf.summary.scalar("loss", loss, step=int(step))
                print(f"evaluator: step {int(step)}, held-out accuracy {share:.2%}", flush=True)
            tf.summary.flush()
            if step >= options.steps:
                return
    raise SystemExit(f"evaluator: no new checkpoint for {PATIENCE} s; has training died at step {int(step)}?")


if __name__ == "__main__":
    main()
