"""Reading a log that grows."""

import os
from pathlib import Path

BLOCK_BYTES = 64 * 1024


def tail_start(file: Path, lines: int) -> int:
    """The byte at which the last ``lines`` lines of a log begin; 0 where it has no more, or is not there."""
    if not file.exists():
        return 0
    with file.open("rb") as log:
        position = size = log.seek(0, os.SEEK_END)
        if lines == 0:
            return size
        missing = lines
        while position > 0:
            position, end = max(0, position - BLOCK_BYTES), position
            log.seek(position)
            block = log.read(end - position)
            # The line end at the very end of the log ends the last line, it begins none.
            search_to = len(block) - (end == size and block.endswith(b"\n"))
            while (found := block.rfind(b"\n", 0, search_to)) >= 0:
                missing -= 1
                if missing == 0:
                    return position + found + 1
                search_to = found
        return 0


def read_from(file: Path, offset: int, most: int = BLOCK_BYTES) -> bytes:
    """Up to ``most`` bytes of a log behind ``offset``; nothing where there are none yet."""
    if not file.exists():
        return b""
    with file.open("rb") as log:
        log.seek(offset)
        return log.read(most)


def whole_lines(block: bytes, *, last: bool) -> bytes:
    """The block up to its last line end; all of it when it is full without one, or the ``last`` there will be."""
    end = block.rfind(b"\n") + 1
    return block if last or (end == 0 and len(block) >= BLOCK_BYTES) else block[:end]
