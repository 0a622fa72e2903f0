"""Facts about this machine: which Java, which interpreter, which tools.

Finding out starts processes and reads the environment; what follows from the facts is decided in
pure functions. Nothing here knows of Kafka.

Map: `java`, `interpreter`, `spark`, `tools` and `descriptors`: what is here, and what is missing.
"""

from parley.host.descriptors import raise_descriptor_limit
from parley.host.interpreter import import_failure, interpreter_has, spark_interpreter
from parley.host.java import (
    JavaHome,
    find_java,
    java17,
    make_spark_java_home,
    parse_java_version,
    require_java,
)
from parley.host.spark import spark_environment
from parley.host.tools import find_tool

__all__ = [
    "JavaHome",
    "find_java",
    "find_tool",
    "import_failure",
    "interpreter_has",
    "java17",
    "make_spark_java_home",
    "parse_java_version",
    "raise_descriptor_limit",
    "require_java",
    "spark_environment",
    "spark_interpreter",
]
