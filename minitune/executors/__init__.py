"""Executors run the actors of trials: in processes, in this process, on learning curves, or on a Ray cluster."""
