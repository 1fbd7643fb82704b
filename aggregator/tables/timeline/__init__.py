"""Timelines: events of a database as columns, by lane, and as a Perfetto trace."""
