"""States of plug-ins, which are saved with a run."""

from __future__ import annotations

from typing import Any


class Saved:
    """The base of schedulers, searchers and stoppers: an object with a state.

    Attributes:
        _STATE: The names of the attributes that are saved; None for all. What the arguments of a new object may change
            is not among them.
    """

    _STATE: tuple[str, ...] | None = None

    def get_state(self) -> dict[str, Any]:
        """The state that is saved with the run; by default all attributes.

        It is no copy: the run pickles it at once.
        """
        if self._STATE is None:
            return dict(self.__dict__)
        return {name: getattr(self, name) for name in self._STATE}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned.

        Raises:
            ValueError: If the state does not fit the arguments.
        """
        names = state if self._STATE is None else self._STATE
        self.__dict__.update({name: state[name] for name in names})
