"""As much of S3 as a log needs, on this machine: objects in a dictionary, put, got, listed and deleted over HTTP.

It keeps to the one rule that matters here, as S3 does: a put with `If-None-Match: *` succeeds once.
"""

from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class S3Store:
    """One bucket, `bucket`."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("BucketHandler", (Handler,), {"store": self}))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def address(self, path: str) -> str:
        host = f"127.0.0.1:{self._server.server_address[1]}"
        return f"s3://bucket/{path}?endpoint_override={host}&scheme=http&region=us-east-1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    """Answers one request after the other of a connection."""

    store: S3Store
    protocol_version = "HTTP/1.1"

    @property
    def key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix("/bucket").removeprefix("/")

    def do_PUT(self) -> None:
        data = self._body()
        with self.store.lock:
            if self.headers.get("If-None-Match") == "*" and self.key in self.store.objects:
                return self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            self.store.objects[self.key] = data
        return self._answer(200, headers={"ETag": _tag(data)})

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        if "list-type" in query:
            return self._list(query.get("prefix", [""])[0], query.get("delimiter", [""])[0])
        return self._object()

    def do_HEAD(self) -> None:
        if not self.key:
            return self._answer(200)
        return self._object()

    def do_DELETE(self) -> None:
        with self.store.lock:
            self.store.objects.pop(self.key, None)
        self._answer(204)

    def _object(self) -> None:
        data = self.store.objects.get(self.key)
        if data is None:
            return self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        asked, status, headers = self.headers.get("Range"), 200, {"ETag": _tag(data)}
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            end = min(int(last), len(data) - 1) if last else len(data) - 1
            headers["Content-Range"] = f"bytes {first}-{end}/{len(data)}"
            status, data = 206, data[int(first) : end + 1]
        return self._answer(status, data, headers)

    def _list(self, prefix: str, delimiter: str) -> None:
        with self.store.lock:
            found = {key: data for key, data in sorted(self.store.objects.items()) if key.startswith(prefix)}
        folders = {
            prefix + key[len(prefix) :].split(delimiter)[0] + delimiter
            for key in found
            if delimiter and delimiter in key[len(prefix) :]
        }
        files = [key for key in found if not delimiter or delimiter not in key[len(prefix) :]]
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(found[key])}</Size>"
            f"<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in files
        )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders)
        )
        count = f"<KeyCount>{len(files) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>"
        self._answer(200, f"<ListBucketResult>{count}{contents}{common}</ListBucketResult>".encode())

    def _body(self) -> bytes:
        raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return raw
        # Chunks of the form `size;signature`, line, data, line.
        data = b""
        while raw:
            line, _, raw = raw.partition(b"\r\n")
            size = int(line.split(b";")[0], 16)
            data, raw = data + raw[:size], raw[size + 2 :]
            if not size:
                break
        return data

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
