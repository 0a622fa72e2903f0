"""Changes of the cluster: topics."""
