"""Reading without an end: how a query goes on from offset to offset."""
