"""What holds under kill -9: of Spark jobs, run.py, and of consumer groups, groups.py."""
