"""Speed and memory goals: each a ratio to something that is run beside it."""
