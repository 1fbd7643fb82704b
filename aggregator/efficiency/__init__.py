"""What ops achieved beside what the GPU can do, written into a database for each aggregation."""
