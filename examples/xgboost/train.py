"""Train on handwritten digits with XGBoost; each worker holds a part of the rows.

python train.py HOST:PORT    of the tracker
"""

import sys

import xgboost
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from xgboost import collective


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.2, random_state=1, stratify=labels)
    host, _, port = sys.argv[1].rpartition(":")
    with collective.CommunicatorContext(dmlc_tracker_uri=host, dmlc_tracker_port=int(port)):
        rank, workers = collective.get_rank(), collective.get_world_size()
        print(f"rank {rank}: joined, {workers} workers", flush=True)
        rows = xgboost.DMatrix(train_x[rank::workers], train_y[rank::workers])
        held_out = xgboost.DMatrix(test_x, test_y)
        parameters = {"objective": "multi:softmax", "num_class": 10, "tree_method": "hist", "nthread": 1}
        model = xgboost.train(parameters, rows, num_boost_round=20)
        if rank == 0:
            accuracy = (model.predict(held_out) == test_y).mean()
            print(f"held-out accuracy {accuracy:.2%}", flush=True)


if __name__ == "__main__":
    main()
