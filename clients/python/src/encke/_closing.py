"""What is closed when its `with` ends."""

from __future__ import annotations

from typing import Self


class Closing:
    """For programs that block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError


class AsyncClosing:
    """For asyncio."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        raise NotImplementedError
