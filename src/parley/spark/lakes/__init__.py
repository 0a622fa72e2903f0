"""Sinks for lakes: rows of Spark into Delta and Iceberg tables without JARs, of a stream exactly
once.

Tasks write Parquet files into the table's folder and hand back what is in them. The driver makes
one commit of a batch's files, together with the batch's number (`txn` in Delta's log, a property of
an Iceberg table): rows and number become visible at once or not at all, and a batch whose number
stands there is not written again. Files that no commit names are never read.

Map: `source` is what Spark finds, `writer` what it calls, `options` and `iceberg_options` what it
was given. In tasks: `files`, made with `partitions`, `statistics` and `folders`. On the driver:
`lake` plans and commits, `delta` does so with delta-rs, `iceberg` and `iceberg_manifests` with
pyiceberg, which they alone know; `columns`, `iceberg_columns`, `features`, `restores` and
`decisions` are pure. `messages` go between them. Without Spark `opening` opens tables for all,
`snapshots` reads one as it was at a version, `reading` looks at a small one.
"""
