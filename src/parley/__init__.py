"""parley: Apache Kafka of any release, from Python and Spark."""

__version__ = "0.1.0"
