"""One digest for a set of weights, computed alike by the trainer that sends them and the server that loads them.

SHA-256 over, for each tensor in order of its name: the name, dtype and shape as safetensors spells them, and the
raw little-endian bytes. The layout of the file does not enter, so a sharded and a single file agree.
"""

import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 1 << 22


def digest_of_folder(folder: Path) -> str:
    """The digest of all ``*.safetensors`` in a folder. Raises `FileNotFoundError` where there are none."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"no *.safetensors in {folder}: a weight push needs a folder that holds the weights")
    tensors = sorted(entry for file in files for entry in _tensors(file))
    digest = hashlib.sha256()
    for name, dtype, shape, file, start, end in tensors:
        digest.update(f"{name}\0{dtype}\0{list(shape)}\0".encode())
        with file.open("rb") as stream:
            stream.seek(start)
            remaining = end - start
            while remaining:
                chunk = stream.read(min(_CHUNK, remaining))
                if not chunk:
                    raise ValueError(f"{file} ends inside tensor {name}: the file is cut short")
                digest.update(chunk)
                remaining -= len(chunk)
    return digest.hexdigest()


def _tensors(file: Path) -> Iterator[tuple[str, str, tuple[int, ...], Path, int, int]]:
    """Name, dtype, shape, file and absolute byte range of each tensor (safetensors: u64 header length, JSON, data)."""
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(length))
    base = 8 + length
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            yield name, entry["dtype"], tuple(entry["shape"]), file, base + start, base + end
