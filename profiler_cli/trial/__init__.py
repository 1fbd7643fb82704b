"""``dlprof trial``: try a change and know."""
