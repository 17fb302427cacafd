"""The callback for the `Trainer` of Transformers, called as the library calls it."""

import os
from pathlib import Path
from types import SimpleNamespace

from kit import fit, stand_ins

LIBRARY = {
    "transformers": {},
    "transformers.trainer_callback": {"TrainerCallback": type("TrainerCallback", (), {})},
    "transformers.trainer_utils": {"get_last_checkpoint": lambda directory: max(Path(directory).iterdir())},
}


def test_each_save_is_reported_with_the_last_metrics_and_a_copy_of_what_was_saved(tmp_path):
    output = tmp_path / "output"
    with stand_ins(LIBRARY, "minitune.integration.transformers") as module:

        def train(config):
            log = []
            for step in (1, 2):
                log += [{"loss": 2.0 / step, "step": step}, {"eval_loss": 1.0 / step, "step": step}]
                saved = output / f"checkpoint-{step}"
                saved.mkdir(parents=True)
                (saved / "model").write_text(str(step))
                arguments = SimpleNamespace(output_dir=str(output))
                module.RayTrainReportCallback().on_save(arguments, SimpleNamespace(log_history=log), None, model=None)

        (result,) = fit(train)
        trainer = object()
        assert module.prepare_trainer(trainer) is trainer
    assert result.error is None
    told = [(metrics["loss"], metrics["eval_loss"], metrics["step"]) for _, metrics in result.best_checkpoints]
    assert told == [(2.0, 1.0, 1), (1.0, 0.5, 2)]
    models = [Path(kept.path, "checkpoint", "model").read_text() for kept, _ in result.best_checkpoints]
    assert models == ["1", "2"]
    assert sorted(os.listdir(output)) == ["checkpoint-1", "checkpoint-2"], "the Trainer keeps its own"
