"""A replica and its log: batches in segments, epochs, and what producers left in it."""
