"""TuneSearchCV: scikit-learn's randomized search, with the searchers and early stopping of minitune.

::

    search_cv     TuneSearchCV: makes a Tuner of its arguments, and `cv_results_` of the results
    candidates    distributions as candidates that are drawn ahead, or as a search space
    training      one trial: a candidate, which is trained and scored on all folds
"""

from __future__ import annotations

_OLDEST = (1, 6)
"""The estimator is made of parts of scikit-learn that have had their present form since this version."""


def _require_scikit_learn() -> None:
    how = "install it with: pip install 'scikit-learn>=1.6'"
    try:
        import sklearn
    except ImportError as error:
        raise ModuleNotFoundError(f"minitune.sklearn needs scikit-learn ({error}); {how}", name="sklearn") from error
    if tuple(int(part) for part in sklearn.__version__.split(".")[:2]) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ImportError(
            f"minitune.sklearn needs scikit-learn {oldest} or newer, but found {sklearn.__version__}; {how}",
            name="sklearn",
        )


_require_scikit_learn()

from minitune.base.lazy import listing  # noqa: E402
from minitune.sklearn.search_cv import TuneSearchCV  # noqa: E402  # only now it is known that this can be imported

__all__ = ["TuneSearchCV"]

__dir__ = listing(__all__)
