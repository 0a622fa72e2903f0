"""Reading a range of offsets: what the planner asks the cluster, and what a task does.

Map: `reader` is what Spark calls. Driver: `planner` asks (`asking` outlasts outages), `plan` and
`ranges` decide, `packing` says which of them a task reads, `samples` and `pushdown` make it less,
`history` holds positions against epochs. `task` reads a task's ranges; `loss` is what is missing.
`typed` decodes keys and values, and `dead_letters` writes those that cannot be.
"""
