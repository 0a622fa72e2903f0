"""Complete jobs: the demo, with Spark; replication, replay and comparison of topics, with clients
alone.

inputs/      files -> rows: CSV, JSON lines, Parquet, and the flights of the demo
feed         rows -> Arrow batches with keys, Avro values and headers, at a pace
scenario     what happens to the embedded clusters, and when
job          the pipeline's file: a copy, two queries, a comparison
account      what went in against what came out
progress     the display
demo         puts them together

replication/ copies topics from a cluster to another
replay/      writes a topic's records into another one once more
verify/      compares topics of two clusters
queries/     streaming queries of Spark, from topics to a topic or a table
declared/    what a file says that is to be done, by these
checks       options that jobs share
rights       what users of clusters need on topics, and may
attempts     how long a job tries again after trouble that may pass
blocking     a job for blocking code

Map: `demo` is the job: `environments` run brokers, `feed` writes, `job` is the rest as a file that
`declared` runs, `scenario` what happens meanwhile, `counting` and `account` the balance, `progress`
the display. `inputs` reads files. `replication`, `replay`, `verify` and `queries` are jobs of their
own; they share `attempts`, `blocking`, `checks` and `rights`, and `declared` runs them.
"""
