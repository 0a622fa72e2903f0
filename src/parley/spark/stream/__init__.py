"""Reading without an end: how a query goes on from offset to offset.

Map: `reader` is what Spark calls, `driver` remembers and `plan` decides; `limits` and `pace` size a
batch, `ending` ends it, `group_progress` commits for monitors. `schemas` keeps those of readers.
"""
