"""The events of a profile: one model of work, calls, ops and waits, and the store that reads it."""
