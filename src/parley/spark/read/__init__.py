"""Reading a range of offsets: what the planner asks the cluster, and what a task does."""
