"""Every administrative call as a method of both clients: a line below `AsyncAdministration` and one
below `Administration`.

What a call takes, checks, returns and raises stands at its function, in the module of its concern.
"""

from __future__ import annotations

from parley.client.admin import (
    described_groups,
    group_lag,
    group_members,
    group_offsets,
    groups,
    records,
    rights,
    topics,
)
from parley.client.admin.calls import of_client
from parley.net.blocking import blocking


class AsyncAdministration:
    """What an asynchronous client can do to a cluster, and ask as its operator."""

    create_topics = of_client(topics.create_topics)
    create_partitions = of_client(topics.create_partitions)
    delete_topics = of_client(topics.delete_topics)
    delete_records = of_client(records.delete_records)
    authorized_operations = of_client(rights.authorized_operations)
    list_groups = of_client(groups.list_groups)
    describe_groups = of_client(described_groups.describe_groups)
    delete_groups = of_client(groups.delete_groups)
    list_group_offsets = of_client(group_offsets.list_group_offsets)
    alter_group_offsets = of_client(group_offsets.alter_group_offsets)
    delete_group_offsets = of_client(group_offsets.delete_group_offsets)
    remove_members = of_client(group_members.remove_members)
    group_lag = of_client(group_lag.group_lag)


class Administration:
    """The same of a blocking client."""

    create_topics = blocking(AsyncAdministration.create_topics)
    create_partitions = blocking(AsyncAdministration.create_partitions)
    delete_topics = blocking(AsyncAdministration.delete_topics)
    delete_records = blocking(AsyncAdministration.delete_records)
    authorized_operations = blocking(AsyncAdministration.authorized_operations)
    list_groups = blocking(AsyncAdministration.list_groups)
    describe_groups = blocking(AsyncAdministration.describe_groups)
    delete_groups = blocking(AsyncAdministration.delete_groups)
    list_group_offsets = blocking(AsyncAdministration.list_group_offsets)
    alter_group_offsets = blocking(AsyncAdministration.alter_group_offsets)
    delete_group_offsets = blocking(AsyncAdministration.delete_group_offsets)
    remove_members = blocking(AsyncAdministration.remove_members)
    group_lag = blocking(AsyncAdministration.group_lag)
