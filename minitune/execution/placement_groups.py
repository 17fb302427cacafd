"""The import path under which users of Ray Tune know `Resources`."""

from minitune.resources import Resources as PlacementGroupFactory

__all__ = ["PlacementGroupFactory"]
