"""Large values: blobs that the run holds, read and stored part by part.

    from wfhost import blobs, entry

    @entry
    async def run(input):
        writer = blobs.Writer("text/csv")
        async for line in blobs.lines(input["data"]):
            await writer.write(f"{line.upper()}\\n")
        return await writer.finish()

A script has no such module, and imports a copy of this file, which needs nothing but `wfhost`.

A handle is a dict with `digest`, `size` and `media-type`: a run reads what it was given or has made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from wfhost import call

__all__ = ["Handle", "Writer", "lines", "parts"]

#: The handle of a blob.
Handle = dict[str, Any]

#: Bytes of one call: below the limit `payload`, which is 1 MiB unless the workflow says otherwise.
PART_BYTES = 512 << 10


async def parts(blob: Handle, offset: int = 0) -> AsyncIterator[bytes]:
    """The bytes of a blob from an offset on, in parts of at most 512 KiB."""
    while offset < blob["size"]:
        part = await call(
            "blob.get", {"blob": blob["digest"], "offset": offset, "length": PART_BYTES, "as": "bytes"}
        )
        yield part
        offset += len(part)


async def lines(blob: Handle, offset: int = 0) -> AsyncIterator[str]:
    """The lines of a blob in UTF-8 from an offset on, without their ends."""
    at: int | None = offset if offset < blob["size"] else None
    while at is not None:
        answer = await call("blob.get", {"blob": blob["digest"], "offset": at, "as": "lines"})
        for line in answer["lines"]:
            yield line
        at = answer["next"]


class Writer:
    """Writes a blob. Each 512 KiB are a blob of their own, which counts for what the run holds."""

    def __init__(self, media_type: str = "application/octet-stream") -> None:
        self.media_type = media_type
        self._parts: list[str] = []
        self._rest = bytearray()

    async def write(self, content: bytes | str) -> None:
        """Appends bytes, or a text in UTF-8."""
        self._rest += content.encode() if isinstance(content, str) else content
        while len(self._rest) >= PART_BYTES:
            await self._store(PART_BYTES)

    async def finish(self) -> Handle:
        """Makes a blob of all that was written."""
        if self._rest or not self._parts:
            await self._store(len(self._rest))
        return await call("blob.put", {"parts": self._parts, "media-type": self.media_type})

    async def _store(self, length: int) -> None:
        part = bytes(self._rest[:length])
        del self._rest[:length]
        handle = await call("blob.put", part)
        self._parts.append(handle["digest"])
