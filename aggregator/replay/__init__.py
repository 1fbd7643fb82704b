"""Replays steps: what they wait for, and what changes would give."""
