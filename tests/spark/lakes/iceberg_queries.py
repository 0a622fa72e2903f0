"""A stream into an Iceberg table without Spark, with a catalog in a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from parley.spark.lakes.iceberg import IcebergLake
from parley.spark.lakes.iceberg_options import read_iceberg_options
from parley.spark.options.row import Use

from .queries import Query

NAME = "lake.flights"


def catalog_options(root: Path) -> dict[str, str]:
    """Return the options that name the catalog in a folder."""
    return {
        "catalog.type": "sql",
        "catalog.uri": f"sqlite:///{root}/catalog.db",
        "catalog.warehouse": str(root / "warehouse"),
    }


def catalog(root: Path) -> SqlCatalog:
    """Return pyiceberg's own view of that catalog, with the namespace of the tests' tables."""
    given = {name.removeprefix("catalog."): text for name, text in catalog_options(root).items()}
    found = SqlCatalog("default", **given)
    found.create_namespace_if_not_exists("lake")
    return found


def load(root: Path) -> Table:
    """Return the table as pyiceberg opens it for anybody."""
    return catalog(root).load_table(NAME)


@dataclass
class IcebergQuery(Query):
    """One query and its table; `table` is the folder of catalog and files."""

    def __post_init__(self) -> None:
        catalog(self.table)

    def lake(self) -> IcebergLake:
        given = {"path": NAME, "checkpointLocation": "/checkpoint", **catalog_options(self.table)}
        return IcebergLake(read_iceberg_options(given | self.options, Use.STREAM_WRITE))
