"""File with the keys of sealed events: one key on a line, in base64; the first one seals, and all of them open.

The file is a secret like a private key of TLS, and refused if others on the machine may read it. A running broker reads
it again when it has changed, so that keys are replaced without a restart.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from pathlib import Path
from typing import Final

from palio.errors import InputError
from palio.routing.sealing import KEY_BYTES

_MAX_KEYS: Final = 64
_READABLE_BY_OTHERS: Final = 0o077


class SealingKeyFile:
    """The keys in a file, and whether it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at: tuple[int, int] | None = None  # time and size of what was read last

    def read(self) -> list[bytes]:
        """The keys; `InputError` where they are not keys, or not secret. It never repeats the content."""
        try:
            state = self._path.stat()
            text = self._path.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "keys are text"
            raise InputError(str(self._path), f"keys of sealed events cannot be read: {reason}") from None
        if state.st_mode & _READABLE_BY_OTHERS:
            raise InputError(str(self._path), "others on this machine may read these keys; `chmod 600` it")
        self._read_at = state.st_mtime_ns, state.st_size
        lines = [line.strip() for line in text.splitlines()]
        keys = [self._key(number, line) for number, line in enumerate(lines, 1) if line and not line.startswith("#")]
        if not 0 < len(keys) <= _MAX_KEYS:
            raise InputError(
                str(self._path), f"from 1 to {_MAX_KEYS} keys of sealed events are needed, not {len(keys)}"
            )
        return keys

    def changes(self) -> list[bytes] | None:
        """The keys, if the file has changed since it was read; else None."""
        state = self._path.stat()
        return None if (state.st_mtime_ns, state.st_size) == self._read_at else self.read()

    def _key(self, number: int, line: str) -> bytes:
        try:
            key = b64decode(line, validate=True)
        except Error:
            key = b""
        if len(key) != KEY_BYTES:
            raise InputError(str(self._path), f"a key is {KEY_BYTES} random bytes in base64", number)
        return key
