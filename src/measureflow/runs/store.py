"""The frames of a run on the disk: a store of zarr in which each file is checked when it is read.

What has no line in the checksums of the folder is not there, so frames that a kill left half-written are not seen.
"""

import os
from collections.abc import AsyncIterator
from typing import Any, final

from zarr.storage import LocalStore

from measureflow.runs.checksums import Checksums

DATA = "data.zarr"
"""The folder of the frames in that of the run."""


@final
class CheckedStore(LocalStore):
    """The frames of a run, with the checksums of its folder."""

    def __init__(self, checksums: Checksums, *, read_only: bool = False):
        super().__init__(checksums.folder / DATA, read_only=read_only)
        self.checksums = checksums

    def with_read_only(self, read_only: bool = False) -> "CheckedStore":
        """The same store, with or without writing."""
        return CheckedStore(self.checksums, read_only=read_only)

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        """What a file holds, or a part of it; it is checked as a whole."""
        if not self._counts(key):
            return None
        found = await super().get(key, prototype)
        self.checksums.check(f"{DATA}/{key}", None if found is None else found.to_bytes())
        return found if byte_range is None or found is None else await super().get(key, prototype, byte_range)

    async def set(self, key: str, value: Any) -> None:
        """Write a file, which is on the disk when this returns."""
        self.checksums.note(f"{DATA}/{key}", value.to_bytes())
        await super().set(key, value)
        with open(self.root / key, "rb") as file:
            os.fsync(file.fileno())

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        """Write a file that is not there."""
        if not await self.exists(key):
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """Remove a file."""
        if self._counts(key):
            self.checksums.note(f"{DATA}/{key}", None)
        await super().delete(key)

    async def delete_dir(self, prefix: str) -> None:
        """Remove a folder."""
        for name in self._below(prefix):
            self.checksums.note(name, None)
        await super().delete_dir(prefix)

    async def exists(self, key: str) -> bool:
        """Whether a file counts and is there."""
        return self._counts(key) and await super().exists(key)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names in a folder below which a file counts."""
        base = self._base(prefix)
        for name in dict.fromkeys(name.removeprefix(base).split("/")[0] for name in self._below(prefix)):
            yield name

    def _counts(self, key: str) -> bool:
        return f"{DATA}/{key}" in self.checksums

    def _base(self, prefix: str) -> str:
        return "".join(f"{part}/" for part in (DATA, prefix.strip("/")) if part)

    def _below(self, prefix: str) -> list[str]:
        return [name for name in self.checksums if name.startswith(self._base(prefix))]
