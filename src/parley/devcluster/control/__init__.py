"""What drives a running cluster from outside: commands on a socket.

Map: `commands` is the table, made from the cluster's methods; `control` the socket.
"""
