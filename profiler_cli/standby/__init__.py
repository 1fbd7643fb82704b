"""Jobs that stand by: run them, and record windows of them."""
