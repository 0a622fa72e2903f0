"""What every call of a client stands on: metadata, routes to brokers, coordinators, retries, deadlines."""
