import os

import torch
from ray import tune
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        tokens = torch.randint(0, 50, (8,))
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": torch.tensor(index % 2)}


def make(trial=None):
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return BertForSequenceClassification(BertConfig(vocab_size=50, **size))


arguments = TrainingArguments(
    output_dir="trainer", num_train_epochs=2, eval_strategy="epoch", save_strategy="epoch", report_to=[], use_cpu=True
)
trainer = Trainer(model_init=make, args=arguments, train_dataset=Texts(), eval_dataset=Texts())
best = trainer.hyperparameter_search(
    direction="minimize",
    backend="ray",
    n_trials=2,
    hp_space=lambda _: {"learning_rate": tune.loguniform(1e-5, 1e-3)},
    resources_per_trial={"cpu": 1},
    scheduler=tune.schedulers.ASHAScheduler(metric="objective", mode="min", max_t=2),
    storage_path=os.path.abspath("runs"),
)
trials = best.run_summary.trials
print(len(trials), sum(trial.status == "ERROR" for trial in trials), best.hyperparameters["learning_rate"] >= 1e-5, 2)
