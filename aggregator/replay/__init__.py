"""Replays steps: what they wait for, what changes would give, and which rank makes them slow.

``graph.build_graph`` makes the graph from ``inputs.ReplayInput``; ``replay.replay`` computes when
each node would run with other durations; ``path`` finds the critical path and the slack.
"""
