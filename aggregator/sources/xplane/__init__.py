"""Profiles that JAX and TensorFlow write themselves: XPlane, of XLA's profiler."""
