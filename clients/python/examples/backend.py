"""What a browser says goes through this backend, which knows who says it, to Encke."""

import json
import os
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import encke

SESSIONS = {"s-4711": "rj"}  # stands for your own: who is logged in with which cookie
API = os.environ.get("ENCKE_API", "http://127.0.0.1:8001")
client = encke.Client(API, key=os.environ.get("ENCKE_KEY"))


def say(user: str | None, body: bytes) -> tuple[int, object]:
    if user is None:
        return 401, {}
    try:
        match json.loads(body):
            case {"text": str(text), "id": str(id)} if 0 < len(text) <= 1000 and len(id) == 36:
                # The page's own id lets a message that it sends twice be posted once.
                sent = client.send(user, {"text": text}, key=f"{user}:{id}")
                return 200, {"delivered": sent.delivered}
    except ValueError:
        pass
    except encke.EnckeError as error:
        print(error)
        return 502, {}
    return 400, {}


class Backend(BaseHTTPRequestHandler):
    timeout = 10  # seconds in which the page must have said it

    def do_POST(self) -> None:
        body = self.rfile.read(max(0, min(int(self.headers.get("Content-Length", 0)), 10_000)))
        session = SimpleCookie(self.headers.get("Cookie")).get("session")
        user = SESSIONS.get(session.value) if session else None
        status, answer = say(user, body) if self.path == "/say" else (404, {})
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Backend)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
