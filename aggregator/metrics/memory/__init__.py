"""GPU memory: who allocated it, when, and what it was for."""
