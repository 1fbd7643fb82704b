"""``nvtx.plugins`` in a run under dlprof, for scripts written for nvtx-plugins."""
