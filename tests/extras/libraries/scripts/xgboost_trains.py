import os

import lightgbm
import xgboost
from ray import train, tune
from ray.train.lightgbm import LightGBMTrainer
from ray.train.lightgbm import RayTrainReportCallback as OfLightGBM
from ray.train.xgboost import RayTrainReportCallback, XGBoostTrainer
from sklearn.datasets import make_classification

x, y = make_classification(200, 5, random_state=0)


def loop(config):
    data = xgboost.DMatrix(x, y)
    parameters = {"objective": "binary:logistic", "eta": config["eta"]}
    xgboost.train(parameters, data, 2, evals=[(data, "train")], callbacks=[RayTrainReportCallback()])


def light_loop(config):
    data = lightgbm.Dataset(x, y)
    parameters = {"objective": "binary", "learning_rate": config["eta"], "verbose": -1}
    lightgbm.train(parameters, data, 2, valid_sets=[data], valid_names=["train"], callbacks=[OfLightGBM()])


run_config = train.RunConfig(storage_path=os.path.abspath("runs"))
space = {"train_loop_config": {"eta": tune.grid_search([0.1, 0.5])}}
light = LightGBMTrainer(light_loop, train_loop_config={"eta": 0.3}, run_config=run_config).fit()
assert LightGBMTrainer.get_model(light.checkpoint).num_trees() == 2
grid = tune.Tuner(
    XGBoostTrainer(loop, scaling_config=train.ScalingConfig(num_workers=1), run_config=run_config),
    param_space=space,
    tune_config=tune.TuneConfig(metric="train-logloss", mode="min"),
).fit()
best = grid.get_best_result()
model = XGBoostTrainer.get_model(best.checkpoint)
print(len(grid), grid.num_errors, best.config == {"train_loop_config": {"eta": 0.5}}, model.num_boosted_rounds())
