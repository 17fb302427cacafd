import numpy
import scvi
import scvi.autotune
from anndata import AnnData
from ray import tune
from scipy.sparse import csr_matrix

cells = AnnData(csr_matrix(numpy.random.default_rng(0).poisson(2, (60, 20)).astype(numpy.float32)))
scvi.model.SCVI.setup_anndata(cells)
experiment = scvi.autotune.run_autotune(
    scvi.model.SCVI,
    data=cells,
    metrics=["elbo_validation"],
    mode="min",
    search_space={"model_params": {"n_hidden": tune.choice([4, 8])}, "train_params": {"max_epochs": 2}},
    num_samples=2,
    seed=0,
    scheduler="asha",
    searcher="random",
    resources={"cpu": 1},
    logging_dir="runs",
)
grid = experiment.result_grid
best = grid.get_best_result("elbo_validation", "min")
print(len(grid), grid.num_errors, best.config["model_params"]["n_hidden"] in (4, 8), best.metrics["training_iteration"])
