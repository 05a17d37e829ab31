"""A small server of the Open Inference Protocol, written from its specification, that can be made to misbehave."""

from __future__ import annotations

import json
import signal
import struct
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

KINDS = {"FP64": "<f8", "FP32": "<f4", "INT64": "<i8", "BOOL": "?"}
HEADER = "Inference-Header-Content-Length"


class Server(ThreadingHTTPServer):
    """``answer``: from columns to labels; ``trouble``: called with the handler before it, True where it answered."""

    daemon_threads = True

    def __init__(self, answer, metadata, extensions):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.metadata, self.extensions = answer, metadata, extensions
        self.trouble = None
        self.slow_ready = 0.0  # seconds
        self.requests, self.records, self.headers, self.other = 0, [], [], 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v2/models/m"

    def process_request_thread(self, request, client_address):
        # a command in this process lets broken pipes end it; a client that goes away would take the test run with it
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
        super().process_request_thread(request, client_address)

    def handle_error(self, request, client_address):  # a client that went away
        pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_GET(self):
        self.server.other += 1
        known = {"/v2": {"name": "s", "version": "1", "extensions": self.server.extensions}}
        known["/v2/models/m"] = {"name": "m", "platform": "", **self.server.metadata}
        known["/v2/models/m/ready"] = {}
        time.sleep(self.server.slow_ready if self.path.endswith("/ready") else 0)
        found = known.get(self.path)
        self.give(json.dumps(found or {}).encode(), 200 if found is not None else 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests += 1
        self.server.headers.append(dict(self.headers))
        request, rest = body, b""
        if HEADER in self.headers:
            at = int(self.headers[HEADER])
            request, rest = body[:at], body[at:]
        self.request_document = json.loads(request)
        columns = []
        for one in self.request_document["inputs"]:
            size = one.get("parameters", {}).get("binary_data_size")
            columns.append(read(one, None if size is None else rest[:size]))
            rest = rest[size or 0 :]
        self.n = len(columns[0])
        rows = columns[0].tolist() if columns[0].ndim == 2 else zip(*(c.tolist() for c in columns), strict=True)
        self.server.records.append(list(map(tuple, rows)))
        if self.server.trouble is not None and self.server.trouble(self):
            return
        self.answer(self.server.answer(columns))

    def answer(self, labels, **changed):
        """Answer labels by the output y; ``changed``: fields of that output, or of the reply."""
        labels = np.asarray(labels)
        kind = {"i": "INT64", "b": "BOOL", "f": "FP64", "U": "BYTES", "O": "BYTES"}[labels.dtype.kind]
        output = {"name": "y", "datatype": kind, "shape": [len(labels), 1], "data": labels.tolist()}
        reply = {"model_name": "m", "id": self.request_document["id"], "outputs": [output]}
        for name, value in changed.items():
            (reply if name in ("id", "outputs", "model_version") else output)[name] = value
        headers, tail = {}, b""
        if self.request_document["parameters"].get("binary_data_output"):
            del output["data"]
            texts = [text.encode() for text in labels.tolist()] if kind == "BYTES" else []
            tail = (
                b"".join(struct.pack("<I", len(t)) + t for t in texts)
                if texts
                else labels.astype(KINDS[kind]).tobytes()
            )
            output["parameters"] = {"binary_data_size": len(tail)}
        head = json.dumps(reply).encode()
        if tail:
            headers[HEADER] = str(len(head))
        self.give(head + tail, **headers)

    def give(self, body, status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def read(one, part):
    n, width = one["shape"]
    if one["datatype"] == "BYTES":
        texts = one.get("data")
        if part is not None:
            texts = []
            while part:
                size = struct.unpack("<I", part[:4])[0]
                texts.append(part[4 : 4 + size].decode())
                part = part[4 + size :]
        return np.array([*texts, None], dtype=object)[:-1]
    values = (
        np.frombuffer(part, KINDS[one["datatype"]])
        if part is not None
        else np.array(one["data"], KINDS[one["datatype"]])
    )
    return values.reshape(n, width) if width > 1 else values.reshape(n)


@contextmanager
def serving(answer, *, inputs=(), outputs=(), extensions=()):
    """Serve a function from a list of columns to labels."""
    metadata = {"versions": ["1"], "inputs": list(inputs), "outputs": list(outputs)}
    server = Server(answer, metadata, list(extensions))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
