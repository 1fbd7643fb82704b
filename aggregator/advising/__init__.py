"""Our own advice for a database: reads what the advisers look at, and writes what they found."""
