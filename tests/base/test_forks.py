"""What a fork copies knows where it was made."""

import os

from minitune.base.forks import Origin, only_here


def in_a_child(find):
    pid = os.fork()
    if not pid:
        os._exit(1 if find() else 0)
    return bool(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def test_an_object_is_at_home_only_in_the_process_that_made_it():
    origin = Origin()
    assert origin.is_here()
    assert not in_a_child(origin.is_here)
    assert in_a_child(lambda: Origin().is_here())
    assert not in_a_child(lambda: in_a_child(origin.is_here))
    assert origin.is_here()


def test_a_finalizer_does_nothing_in_a_child():
    called = []

    def note(number, *, text):
        """Notes."""
        called.append((number, text))

    final = only_here(note)
    assert final.__doc__ == "Notes."

    def is_called():
        final(1, text="child")
        return bool(called)

    assert not in_a_child(is_called)
    final(2, text="here")
    assert called == [(2, "here")]
