"""minitune: hyperparameter tuning on one machine, with Ray Tune's programming model and none of Ray."""
