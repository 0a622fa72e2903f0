"""The demo: rows as Avro into an old cluster, copied to a new one, decoded by Spark into a table,
while leaders move and brokers are upgraded and killed; then everything is compared and counted.

inputs/      files -> rows: CSV, JSON lines, Parquet, and the flights
feed         rows -> Arrow batches with keys, Avro values and headers, at a pace
scenario     what happens to the embedded clusters, and when
job          the pipeline's file: a copy, two queries, a comparison
account      what went in against what came out
progress     the display
running      one run: its threads, and what is waited for
demo         puts them together

Map: `demo` leads, `running` is one run: `environments` run brokers, `feed` writes, `job` is the
rest as a file, `scenario` what happens meanwhile, `counting` and `account` the balance, `progress`
the display. `inputs` reads files.
"""
