"""What is tuned: functions whose optimum is known (`functions`), and models of scikit-learn (`models`).

`search_functions.py` and `search_models.py` compare the searchers of `searchers` on them.
"""
