"""Add releases to devcluster/release/configs.txt, the settings that real brokers describe.

`python tools/measure_configs.py 2.5.1 3.8.1` starts a broker of each release, and of the measured
ones before and after it (Java 17 and mvn), and asks each for its settings with synonyms. Rows of
other releases stay.

A broker's answer leaves out what the table has: types before 2.6, defaults of topics that no
setting of the broker stands behind. So a setting that is answered as a neighbour answers it takes
the neighbour's row. A release must be in versions/releases.json before, and be 1.1 or later: older
brokers name no defaults.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import parley
from parley.devcluster.release.configs import BROKER, RESOURCES, TOPIC, TYPES, Config, configs_of
from parley.messages import DescribeConfigsRequest
from parley.testing.realbroker import RealCluster
from parley.versions import Release, release, releases

TABLE = (
    Path(__file__).resolve().parent.parent
    / "src"
    / "parley"
    / "devcluster"
    / "release"
    / "configs.txt"
)
FIRST_DESCRIBING, FIRST_WITH_SYNONYMS = (0, 11), (1, 1)
DEFAULT_CONFIG = 5
"""Kafka's number of a value's source (ConfigSource.DEFAULT_CONFIG)."""
TOPIC_NAME = "measured"

Table = dict[str, dict[int, Mapping[str, Config]]]
"""Release -> kind of resource -> name of the setting -> the setting."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("releases", nargs="+", help="full numbers of releases, as in 2.5.1")
    wanted = sorted(
        (release(name) for name in parser.parse_args().releases), key=lambda one: one.number
    )
    for one in wanted:
        if one.number < FIRST_WITH_SYNONYMS:
            parser.error(f"{one.name} does not name defaults; 1.1 and later do")
    text = TABLE.read_text(encoding="ascii").splitlines()
    new = {one.name for one in wanted}
    table, answers = {name: found for name, found in known().items() if name not in new}, {}
    for one in wanted:
        neighbours = [
            name for name in (nearest(table, one, -1), nearest(table, one, 1)) if name is not None
        ]
        for name in {one.name, *neighbours} - answers.keys():
            with RealCluster(name) as cluster:
                answers[name] = measured(cluster.bootstrap_servers)
            print(
                f"{name}: {sum(len(found) for found in answers[name].values())} settings",
                file=sys.stderr,
            )
        table[one.name] = {
            kind: {
                setting: next(
                    (
                        table[name][kind][setting]
                        for name in neighbours
                        if answers[name][kind].get(setting) == found
                    ),
                    found,
                )
                for setting, found in answers[one.name][kind].items()
            }
            for kind in RESOURCES.values()
        }
    head = [line for line in text if line.startswith("#")]
    TABLE.write_text("\n".join([*head, *rows(table)]) + "\n", encoding="ascii")
    return 0


def nearest(table: Table, to: Release, step: int) -> str | None:
    """Return the release of the table right before (step -1) or after (1) another one."""
    names = [name for name in table if (releases()[name].number > to.number) == (step > 0)]
    return min(names, key=lambda name: step * rank(name), default=None)


def rank(name: str) -> int:
    return list(releases()).index(name)


def known() -> Table:
    """Return the table as it is written, for every release that can describe its settings."""
    return {
        name: {kind: configs_of(found, kind) for kind in RESOURCES.values()}
        for name, found in releases().items()
        if found.number >= FIRST_DESCRIBING
    }


def measured(bootstrap_servers: str) -> dict[int, Mapping[str, Config]]:
    """Ask a broker for its settings, a topic's, and those of the other kinds that it knows."""
    with parley.Client(bootstrap_servers=bootstrap_servers) as client:
        client.create_topics([parley.NewTopic(TOPIC_NAME, num_partitions=1, replication_factor=1)])
        # Groups and client metrics have settings where none was made: any name does.
        names = {TOPIC: TOPIC_NAME, BROKER: "1"}
        return {
            kind: described(client, kind, names.get(kind, "none")) for kind in RESOURCES.values()
        }


def described(client: parley.Client, kind: int, resource: str) -> Mapping[str, Config]:
    """Return one resource's settings by name; nothing where the broker does not know the kind."""
    asked = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=resource, configuration_keys=None
    )
    result = client.request(
        1, DescribeConfigsRequest(resources=[asked], include_synonyms=True)
    ).results[0]
    if result.error_code:
        return {}
    found = {}
    for entry in result.configs:
        type_name = (
            TYPES[entry.config_type] if entry.config_type else type_elsewhere(entry.name, kind)
        )
        inherited = next((one.name for one in entry.synonyms if kind == TOPIC), None)
        default = next((one.value for one in entry.synonyms if one.source == DEFAULT_CONFIG), None)
        found[entry.name] = Config(
            entry.name, type_name, not entry.read_only, entry.is_sensitive, inherited, default
        )
    return found


def type_elsewhere(name: str, kind: int) -> str:
    """Return the type that another release gives a setting: before 2.6 brokers do not say it."""
    types = {
        configs_of(found, kind)[name].type
        for found in releases().values()
        if name in configs_of(found, kind)
    }
    if len(types) != 1:
        raise SystemExit(f"{name}: no type is known, or several are: {types}")
    return types.pop()


def rows(table: Table) -> list[str]:
    """Return the lines of the table: one for each setting and run of releases that agree on it.

    The order is that of the kinds, names and releases.
    """
    order = [name for name in releases() if name in table]
    lines = []
    for kind_name, kind in RESOURCES.items():
        for setting in sorted({setting for name in order for setting in table[name].get(kind, {})}):
            runs: list[tuple[str, str, Config]] = []
            for before, name in zip(["", *order], order, strict=False):
                found = table[name].get(kind, {}).get(setting)
                if found is None:
                    continue
                if runs and runs[-1][1] == before and runs[-1][2] == found:
                    runs[-1] = (runs[-1][0], name, found)
                else:
                    runs.append((name, name, found))
            lines += [
                row(kind_name, first, "-" if last == order[-1] else last, one)
                for first, last, one in runs
            ]
    return lines


def row(kind: str, first: str, last: str, config: Config) -> str:
    """Return one line of the table."""
    change, secret = "w" if config.dynamic else "r", "s" if config.sensitive else "-"
    default = "null" if config.default is None else f"={config.default}"
    return "\t".join(
        (
            kind,
            config.name,
            first,
            last,
            config.type,
            change,
            secret,
            config.inherits or "-",
            default,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
