from __future__ import annotations

from ray_cluster import nothing_left, two_nodes

__all__ = ["nothing_left", "two_nodes"]
