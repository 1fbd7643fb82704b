"""Speed and memory goals, each relative to a reference measured in the same run."""
