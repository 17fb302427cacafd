"""The pytest plug-in of the package: the fixture `minitune_smoke`.

pytest loads it in every environment that has minitune, also for suites that do not use it. So it imports only pytest,
and minitune itself when a test uses the fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from minitune.result_grid import ResultGrid


@pytest.fixture
def minitune_smoke(tmp_path: Any) -> Callable[..., ResultGrid]:
    """`minitune_smoke(trainable, space, ...)` runs a short tuning, and fails the test if anything goes wrong.

    It takes the arguments of `minitune.testing.smoke`.
    """
    from minitune.testing import SmokeFailure, smoke

    def run(trainable: Any, space: Any = None, **arguments: Any) -> ResultGrid:
        __tracebackhide__ = True
        failure: SmokeFailure
        try:
            return smoke(trainable, space, **{"directory": tmp_path / "minitune", **arguments})
        except SmokeFailure as error:
            failure = error
        # Only the text is shown; a post-mortem debugger (--pdb) stops where the user's code has failed.
        failed = pytest.fail.Exception(str(failure), pytrace=False)
        raise failed.with_traceback(failure.user_traceback)

    return run
