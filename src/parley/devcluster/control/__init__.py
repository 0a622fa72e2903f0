"""What drives a running cluster from outside: commands on a socket."""
