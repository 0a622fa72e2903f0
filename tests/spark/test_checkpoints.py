"""S11: checkpoints outlive the library that wrote them.

`checkpoints/` has one folder for each form that a checkpoint may have, as text; never edit them.
TOPIC and ID stand for the name and the id of the topic that a test makes.

    spark-kafka       Spark's own source: change the format, keep the checkpoint location
    without-ids       brokers before 2.4 (1.1): positions alone
    epochs            brokers from 2.4 to 2.7 (2.4)
    ids               topic ids and no epochs: the next one without them
    ids-and-epochs    brokers from 2.8 on (3.9)

Written by PySpark 4.2.0 and, the first one, its connector 4.2.0.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parley.client import Client

pytestmark = pytest.mark.timeout(600)

STORED = Path(__file__).with_name("checkpoints")
FORMS = ("spark-kafka", "without-ids", "epochs", "ids", "ids-and-epochs")
READ = {0: 6, 1: 4}
"""How many records of each partition the stored queries have read."""


def restore(form: str, folder: Path, topic: str, topic_id: str) -> None:
    """Copy a stored checkpoint, as that of a query which reads `topic`."""
    shutil.copytree(STORED / form, folder / "checkpoint")
    for file in (folder / "checkpoint").rglob("*"):
        if file.is_file():
            file.write_bytes(
                file.read_bytes()
                .replace(b"TOPIC", topic.encode())
                .replace(b"ID", topic_id.encode())
            )
    # the file sink's own: nothing is left of what the batches wrote
    log = folder / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in (folder / "checkpoint" / "commits").iterdir():
        (log / batch.name).write_text("v1")


@pytest.fixture
def filled(request: pytest.FixtureRequest, client: Client, topic: Any) -> tuple[str, str]:
    """A topic with what the stored queries have read, and three records more in
    each partition; and its id.
    """
    from parley.types import format_uuid

    name = topic(request.node.name.partition("[")[2].strip("]"), partitions=2)
    for partition, read in READ.items():
        values = [f"{partition}:{n}" for n in range(read + 3)]
        client.produce(name, pa.table({"value": values}), partition=partition)
    found = next(
        given for given in (client.metadata([name]).topic_id(name) for _ in range(50)) if any(given)
    )
    return name, format_uuid(found)


@pytest.mark.parametrize("form", FORMS)
def test_s11_a_query_goes_on_from_a_checkpoint_of_any_form(
    stream: Any, filled: tuple[str, str], tmp_path: Path, form: str
) -> None:
    name, topic_id = filled
    restore(form, tmp_path, name, topic_id)
    query = stream(subscribe=name)
    query.run()
    rows = [(partition, offset) for partition, offset, _ in query.rows()]
    assert rows == [(partition, READ[partition] + n) for partition in READ for n in range(3)]
    last = query.offsets()[-1]
    assert last[name] == {"0": 9, "1": 7}
    assert last["@parley"] == 1  # and from here on with all that the brokers report
    assert last["@epochs"][name].keys() == {"0", "1"}


def test_s11_a_checkpoint_of_a_later_format_is_refused_and_left_as_it_is(
    stream: Any, filled: tuple[str, str], tmp_path: Path
) -> None:
    name, topic_id = filled
    restore("ids-and-epochs", tmp_path, name, topic_id)
    for file in (tmp_path / "checkpoint" / "offsets").iterdir():
        file.write_text(file.read_text().replace('"@parley": 1', '"@parley": 2'))
    before = {
        path: path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()
    }
    query = stream(subscribe=name)
    with pytest.raises(
        Exception,
        match=r"offsets are of format 2; this parley reads format 1\. Resume the query with",
    ):
        query.run()
    assert {path: path.read_bytes() for path in before} == before
