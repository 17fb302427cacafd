import os

import numpy
from ray import train, tune
from ray.train.tensorflow import TensorflowTrainer
from ray.train.tensorflow.keras import ReportCheckpointCallback


def loop(config):
    import tensorflow

    strategy = tensorflow.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        layers = [tensorflow.keras.layers.Input((2,)), tensorflow.keras.layers.Dense(1)]
        model = tensorflow.keras.Sequential(layers)
        model.compile(optimizer=tensorflow.keras.optimizers.SGD(config["lr"]), loss="mse")
    x = numpy.random.default_rng(0).random((32, 2), dtype=numpy.float32)
    data = tensorflow.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).batch(8)
    model.fit(data, epochs=2, callbacks=[ReportCheckpointCallback()], verbose=0)


trainer = TensorflowTrainer(
    loop,
    scaling_config=train.ScalingConfig(num_workers=1),
    run_config=train.RunConfig(storage_path=os.path.abspath("runs")),
)
grid = tune.Tuner(
    trainer,
    param_space={"train_loop_config": {"lr": tune.grid_search([0.01, 0.1])}},
    tune_config=tune.TuneConfig(metric="loss", mode="min"),
).fit()
best = grid.get_best_result()
model = ReportCheckpointCallback.get_model(best.checkpoint)
print(len(grid), grid.num_errors, model.count_params() == 3, best.metrics["training_iteration"])
