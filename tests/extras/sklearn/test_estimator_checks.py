"""scikit-learn's own checks of an estimator, on searches of several kinds."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import RandomizedSearchCV
from sklearn.utils.estimator_checks import check_supervised_y_2d, parametrize_with_checks

import minitune
from minitune.sklearn import TuneSearchCV

SEARCHES = [
    TuneSearchCV(LogisticRegression(), {"C": minitune.loguniform(0.1, 10)}, n_iter=2, cv=2, random_state=0),
    TuneSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, n_iter=2, cv=2, search_alg="tpe", random_state=0),
    TuneSearchCV(
        SGDClassifier(random_state=0),
        {"alpha": [1e-4, 1e-3]},
        n_iter=2,
        cv=2,
        early_stopping=True,
        max_iters=2,
        random_state=0,
    ),
]


def expected_failures(search: TuneSearchCV) -> dict[str, str]:
    """The checks that `RandomizedSearchCV` fails, too, with the same estimator."""
    if isinstance(search.estimator, Ridge):
        return {"check_supervised_y_2d": "Ridge takes a target with one column as it is, without a warning"}
    return {}


@parametrize_with_checks(SEARCHES, expected_failed_checks=expected_failures)
def test_a_search_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_expected_failures_are_those_of_scikit_learn() -> None:
    search = RandomizedSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, n_iter=2, cv=2, random_state=0)
    with pytest.raises(AssertionError, match="DataConversionWarning"):
        check_supervised_y_2d("RandomizedSearchCV", search)
