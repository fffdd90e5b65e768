"""Uvicorn's HTTP protocol with a bound on the request's head, which its fast parser lacks."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
"""The longest request line and headers together that are read. Bytes."""

_REFUSAL = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedHttpProtocol(HttpToolsProtocol):
    """Closes a connection whose head does not end: no token is known before it does, so anybody could send one."""

    _head_bytes = 0
    _in_head = True

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head has become too long."""
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                self.transport.write(_REFUSAL)
                self.transport.close()

    def on_message_begin(self) -> None:
        """A request's head begins."""
        super().on_message_begin()
        self._head_bytes, self._in_head = 0, True

    def on_headers_complete(self) -> None:
        """It has ended."""
        self._in_head = False
        super().on_headers_complete()
