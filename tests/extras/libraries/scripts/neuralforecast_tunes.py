import numpy
import pandas
from neuralforecast import NeuralForecast
from neuralforecast.auto import AutoMLP
from neuralforecast.common._base_auto import RayOptions
from ray import tune

days = pandas.date_range("2020-01-01", periods=120, freq="D")
series = pandas.DataFrame({"unique_id": "a", "ds": days, "y": numpy.sin(numpy.arange(120) / 5.0)})
config = {
    "input_size": tune.choice([12, 24]),
    "hidden_size": 8,
    "num_layers": 2,
    "max_steps": 4,
    "val_check_steps": 2,
    "learning_rate": tune.loguniform(1e-4, 1e-2),
}
model = AutoMLP(h=6, config=config, backend="ray", num_samples=2, ray_options=RayOptions(cpus=1, gpus=0))
forecast = NeuralForecast(models=[model], freq="D")
forecast.fit(series, val_size=12)
grid = forecast.models[0].results
best = grid.get_best_result("loss", "min").config
print(len(grid), grid.num_errors, best["input_size"] in (12, 24), len(forecast.predict()))
