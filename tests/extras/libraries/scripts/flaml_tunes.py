import minitune.as_ray  # isort: skip
from flaml import AutoML
from flaml import tune as flaml_tune
from sklearn.datasets import make_classification

import minitune

x, y = make_classification(200, 5, random_state=0)
automl = AutoML()
automl.fit(
    x,
    y,
    task="classification",
    use_ray=True,
    n_concurrent_trials=2,
    max_iter=4,
    time_budget=60,
    estimator_list=["lgbm", "rf"],
    verbose=0,
)
analysis = flaml_tune.run(
    lambda config: {"score": (config["x"] - 1) ** 2},
    config={"x": flaml_tune.uniform(0, 3)},
    metric="score",
    mode="min",
    num_samples=4,
    use_ray=True,
    verbose=0,
)
assert isinstance(analysis, minitune.ExperimentAnalysis)
failed = sum(trial.status == "ERROR" for trial in analysis.trials)
print(len(analysis.trials), failed, automl.best_estimator in ("lgbm", "rf"), len(automl.predict(x[:2])))
