"""A convolutional network trained by workers that share its weights on parameter servers; TensorFlow's low level.

CLUSTER_SPEC says who the servers and workers are, JOB_NAME and TASK_INDEX which of them this process is. Every worker
reads the weights, computes gradients on a batch of its own and applies them without waiting for the others. Sessions
and graphs live on in TensorFlow 2 under tf.compat.v1.

Worker 0 also keeps checkpoints and summaries in --working_dir, continues from the newest checkpoint there, and shows
the summaries with TensorBoard on TB_PORT, where the package is installed.
"""

import argparse
import json
import os
import time

import numpy as np
import tensorflow.compat.v1 as tf

import images

REPORT_EVERY = 50  # steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_dir", default="", help="a folder with mnist.npz; without one, scikit-learn's digits")
    parser.add_argument("--working_dir", default="/tmp/tensorflow/mnist/working_dir", help="one that all tasks see")
    parser.add_argument("--steps", type=int, default=1500, help="how many steps all workers take together")
    parser.add_argument("--batch_size", type=int, default=64)
    options = parser.parse_args()
    tf.disable_eager_execution()

    job, index = os.environ["JOB_NAME"], int(os.environ["TASK_INDEX"])
    spec = json.loads(os.environ["CLUSTER_SPEC"])
    cluster = tf.train.ClusterSpec({"ps": spec["ps"], "worker": spec["worker"]})
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    print(f"{job}:{index}: serving at {server.target}")
    if job == "ps":
        server.join()  # for ever: tony stops it when the workers are done
    else:
        work(options, cluster, server, index)


def work(options: argparse.Namespace, cluster: tf.train.ClusterSpec, server: tf.train.Server, index: int) -> None:
    """Train until all workers together have taken the steps."""
    train_x, test_x, train_y, test_y = images.load(options.data_dir)
    # Weights lie on the servers, everything else is computed here.
    with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=cluster)):
        model = Model(train_x.shape[1])

    # A worker talks to the servers only, lest it wait for one that has finished.
    alone = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
    if index == 0:
        tf.gfile.MakeDirs(options.working_dir)
        start_tensorboard(options.working_dir)
    else:
        wait_for_weights(server, alone)
    pick = np.random.default_rng(index)
    with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=index == 0,
        checkpoint_dir=options.working_dir,
        hooks=[tf.train.StopAtStepHook(last_step=options.steps)],
        config=alone,
    ) as session:

        def judge(step_context: tf.train.MonitoredSession.StepContext) -> float:
            """Asks the session itself: the hooks would take this for a step."""
            inputs = {model.images: test_x, model.labels: test_y, model.kept: 1.0}
            return step_context.session.run(model.accuracy, inputs)

        taken = 0
        while not session.should_stop():
            chosen = pick.integers(len(train_x), size=options.batch_size)
            inputs = {model.images: train_x[chosen], model.labels: train_y[chosen], model.kept: 0.5}
            _, step = session.run([model.train, model.step], inputs)
            if taken % REPORT_EVERY == 0 and not session.should_stop():
                held_out = session.run_step_fn(judge)
                print(f"worker:{index}: step {step}, accuracy {held_out:.2%}")
            taken += 1
    print(f"worker:{index}: took {taken} of {options.steps} steps")


def wait_for_weights(server: tf.train.Server, alone: tf.ConfigProto) -> None:
    """Returns when worker 0 has filled the weights; the session below would look only every 30 seconds."""
    missing = tf.report_uninitialized_variables()
    with tf.Session(server.target, config=alone) as session:
        while len(session.run(missing)):
            time.sleep(0.2)


class Model:
    """The graph: what it is fed with, and what can be asked of it.

    Attributes:
        images, labels: a batch.
        kept: the share of the last layer's inputs that dropout leaves.
        train: takes one step.
        step: how many were taken by all workers.
        accuracy: of the batch.
    """

    def __init__(self, side: int) -> None:
        """Builds it for images of `side` x `side` pixels."""
        self.images = tf.placeholder(tf.float32, [None, side, side])
        self.labels = tf.placeholder(tf.int64, [None])
        self.kept = tf.placeholder(tf.float32)
        self.step = tf.train.get_or_create_global_step()

        x = tf.reshape(self.images, [-1, side, side, 1])
        for layer, (before, after) in enumerate([(1, 16), (16, 32)]):
            kernel = tf.get_variable(f"kernel{layer}", [3, 3, before, after])
            x = tf.nn.relu(tf.nn.conv2d(x, kernel, strides=1, padding="SAME"))
            x = tf.nn.max_pool2d(x, ksize=2, strides=2, padding="SAME")
        x = tf.reshape(x, [-1, x.shape[1] * x.shape[2] * x.shape[3]])
        x = tf.nn.relu(dense(x, 64, "hidden"))
        logits = dense(tf.nn.dropout(x, rate=1.0 - self.kept), 10, "logits")

        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.labels, logits=logits))
        self.train = tf.train.AdamOptimizer(0.003).minimize(loss, global_step=self.step)
        right = tf.equal(tf.argmax(logits, axis=1), self.labels)
        self.accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
        tf.summary.scalar("loss", loss)
        tf.summary.scalar("accuracy", self.accuracy)


def dense(x: tf.Tensor, size: int, name: str) -> tf.Tensor:
    """A layer where everything is connected."""
    weights = tf.get_variable(f"{name}_weights", [int(x.shape[1]), size])
    return x @ weights + tf.get_variable(f"{name}_bias", [size], initializer=tf.zeros_initializer())


def start_tensorboard(folder: str) -> None:
    """Show a folder with summaries on the port that tony reserves for it, unless another task does that."""
    if "TB_PORT" not in os.environ:
        return
    try:
        from tensorboard import program
    except ImportError:
        print("worker:0: TensorBoard is not installed, so the summaries are not shown")
        return
    board = program.TensorBoard()
    reuse = os.environ.get("TB_SERVER_REUSE_PORT") == "true"
    board.configure(logdir=folder, host="0.0.0.0", port=int(os.environ["TB_PORT"]), reuse_port=reuse)
    print(f"worker:0: TensorBoard at {board.launch()}")


if __name__ == "__main__":
    main()
