"""Google's own compiler of .proto texts, as grpcio-tools brings it: the oracle of ours."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import grpc_tools
from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

INCLUDES = Path(grpc_tools.__file__).parent / "_proto"


def protoc_files(
    files: Mapping[str, str], *includes: Path, main: str | None = None
) -> dict[str, pb.FileDescriptorProto]:
    """Return the descriptors of texts and of all that they import, by name. Raises ValueError."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        out = Path(folder, "out.bin")
        wanted = list(files) if main is None else [main]
        paths = [f"-I{one}" for one in (folder, *includes, INCLUDES)]
        code = protoc.main(
            ["protoc", *paths, "--include_imports", f"--descriptor_set_out={out}", *wanted]
        )
        if code != 0:
            raise ValueError("protoc refuses it")
        found = pb.FileDescriptorSet.FromString(out.read_bytes())
    return {one.name: one for one in found.file}


def protoc_class(text: str, message: str) -> type[Message]:
    """Return the class of a message, as a program that was built with protoc has it."""
    found: type[Message] = GetMessageClass(protoc_pool(text).FindMessageTypeByName(message))
    return found


@cache
def protoc_pool(text: str) -> DescriptorPool:
    """Return all types of a text."""
    pool = DescriptorPool()
    for one in protoc_files({"theirs.proto": text}).values():
        pool.AddSerializedFile(one.SerializeToString())
    return pool
