"""TuneSearchCV: scikit-learn's randomized search, with the searchers and early stopping of minitune.

::

    search_cv     TuneSearchCV: makes a Tuner of its arguments, and `cv_results_` of the results
    candidates    distributions as candidates that are drawn ahead, or as a search space
    training      one trial: a candidate, which is trained and scored on all folds
"""

from __future__ import annotations

from minitune.base.lazy import listing

try:
    from minitune.sklearn.search_cv import TuneSearchCV
except ImportError as error:
    raise type(error)(
        f"minitune.sklearn needs scikit-learn 1.6 or newer ({error}); install it with: pip install 'scikit-learn>=1.6'",
        name="sklearn",
    ) from error

__all__ = ["TuneSearchCV"]

__dir__ = listing(__all__)
