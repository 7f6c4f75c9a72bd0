"""A search service that answers at once, but stands still for 200 ms of every 2 s; prints its port."""

import json
import sys
import threading
import time
from socketserver import StreamRequestHandler, ThreadingTCPServer

EVERY_SECONDS, STALL_SECONDS = 2.0, 0.2
BEGAN = time.monotonic()


class Handler(StreamRequestHandler):
    """As little HTTP as there can be, so that the service itself takes next to no time."""

    disable_nagle_algorithm = True

    def handle(self):
        while length := self.length_of_next():
            asked = json.loads(self.rfile.read(length))
            into = (time.monotonic() - BEGAN) % EVERY_SECONDS
            time.sleep(max(0.0, STALL_SECONDS - into))
            said = json.dumps({"ids": list(range(asked["k"]))}).encode()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))

    def length_of_next(self):
        length = 0
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return length


def main():
    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        # It ends with whoever started it.
        threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
        server.serve_forever(0.05)


if __name__ == "__main__":
    main()
