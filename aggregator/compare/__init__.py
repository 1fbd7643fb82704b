"""Two runs compared: who owns each nanosecond of the step, and what of it changed."""
