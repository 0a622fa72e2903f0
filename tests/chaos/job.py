"""The job that is killed: a stream from one topic to another, exactly once. Ends
when asked to and all is read.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from parley.host import spark_environment


def main() -> None:
    servers, source, sink, folder, master = sys.argv[1:6]
    here = Path(folder)
    os.environ.update(spark_environment())
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master(master).appName("chaos")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "600m",
        "spark.executor.memory": "500m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.task.maxFailures": "10",
        "spark.sql.shuffle.partitions": "2",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.excludeOnFailure.enabled": "false",
        "spark.local.dir": str(here / "local"),
        "spark.sql.warehouse.dir": str(here / "warehouse"),
        "spark.worker.dir": str(here / "work"),
    }
    for name, value in settings.items():
        session = session.config(name, value)
    spark = session.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = (
        spark.readStream.format("parley")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
    )
    rows = rows.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "200").load()
    writer = (
        rows.selectExpr("key", "value")
        .writeStream.format("parley")
        .option("kafka.bootstrap.servers", servers)
    )
    writer = writer.option("topic", sink).option("delivery", "exactly-once")
    query = (
        writer.option("checkpointLocation", str(here / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    (here / "running").touch()
    while not (here / "enough").exists():
        if query.awaitTermination(0.2):
            raise SystemExit(f"the query ended: {query.exception()}")
    query.processAllAvailable()
    query.stop()
    spark.stop()
    (here / "over").write_text(str(time.time()))


if __name__ == "__main__":
    main()
