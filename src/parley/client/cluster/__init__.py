"""What every call of a client stands on: metadata, routes, coordinators, retries, deadlines.

Map: `core` holds it together. Metadata: `view` is what is known, `metadata_cache` and
`topic_merger` what may replace what, `refresh` when to ask, `metadata_source` whom, `interests` and
`wanted_topics` for which topics; `refreshing` does it, `overdue` is what a call says that got no
metadata. Requests: `routing` finds the broker, `coordinators` that of a group, `retry` and
`call_deadline` say how long, `refusals` what was refused, `side_by_side` asks many, `change` wakes
who waits. Abilities: `abilities`, `survey`. `starting` is what first calls share, `connecting`
makes connection options, `event_loops` refuses other loops.
"""
