"""Which code of the user runs now."""

from minitune.base.user_code import runs, user_code


def test_user_code_is_what_runs_again_when_the_code_that_it_called_ends():
    with runs("outer"):
        with runs("inner"):
            assert user_code.running[0] == "inner"
        assert user_code.running[0] == "outer"
    assert user_code.running is None
