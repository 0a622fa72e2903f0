"""Writing rows: batches, sequences, what answers mean, what is sent again."""
