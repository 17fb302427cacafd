import os

import torch
from ray import train, tune
from ray.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer
from ray.train.torch import TorchTrainer


def loop(config):
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    class Texts(torch.utils.data.Dataset):
        def __len__(self):
            return 16

        def __getitem__(self, index):
            tokens = torch.randint(0, 50, (8,))
            return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": torch.tensor(index % 2)}

    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    arguments = TrainingArguments(
        output_dir="trainer",
        num_train_epochs=2,
        learning_rate=config["lr"],
        eval_strategy="epoch",
        save_strategy="epoch",
        report_to=[],
        use_cpu=True,
    )
    model = BertForSequenceClassification(BertConfig(vocab_size=50, **size))
    trainer = Trainer(model=model, args=arguments, train_dataset=Texts(), eval_dataset=Texts())
    trainer.add_callback(RayTrainReportCallback())
    prepare_trainer(trainer).train()


run_config = train.RunConfig(storage_path=os.path.abspath("runs"))
trainer = TorchTrainer(loop, scaling_config=train.ScalingConfig(num_workers=1), run_config=run_config)
grid = tune.Tuner(
    trainer,
    param_space={"train_loop_config": {"lr": tune.grid_search([1e-4, 1e-3])}},
    tune_config=tune.TuneConfig(metric="eval_loss", mode="min"),
).fit()
best = grid.get_best_result()
with best.checkpoint.as_directory() as directory:
    has_model = os.path.exists(os.path.join(directory, RayTrainReportCallback.CHECKPOINT_NAME, "config.json"))
print(len(grid), grid.num_errors, has_model, best.metrics["training_iteration"])
