from __future__ import annotations

from ray_cluster import cluster, connection, nothing_left

__all__ = ["cluster", "connection", "nothing_left"]
