"""What backend.mjs does, in Python: serves the page, and gives whoever says a name a token."""
import base64, hashlib, hmac, json, os, re, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

HERE = Path(__file__).parent
SECRET = Path(os.environ.get("SECRET", "secret")).read_text().rstrip().encode()
URL = os.environ.get("ENCKE_URL", "http://127.0.0.1:8000")
PAGE = {"/": "index.html", "/chat.css": "chat.css", "/chat.js": "chat.js",
        "/encke.js": "../../clients/js/dist/encke.js"}
KINDS = {"html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript"}

def sign(claims):
    part = lambda data: base64.urlsafe_b64encode(data).decode().rstrip("=")
    parts = [{"alg": "HS256", "typ": "JWT"}, claims]
    text = ".".join(part(json.dumps(one).encode()) for one in parts)
    return f"{text}.{part(hmac.digest(SECRET, text.encode(), hashlib.sha256))}"

class Backend(BaseHTTPRequestHandler):
    def do_GET(self):
        asked = urlsplit(self.path)
        name = parse_qs(asked.query).get("name", [""])[0]
        path = PAGE.get(asked.path)
        kind, body = KINDS[path.split(".")[-1]] if path else "text/plain", b"There is nothing here."
        if asked.path == "/token" and re.fullmatch(r"[A-Za-z0-9_-]{1,20}", name):
            now, rooms = int(time.time()), ["room:*", "typing:*"]
            encke = {"ids": rooms, "send": rooms, "members": rooms, "info": {"since": now}}
            token = sign({"sub": name, "iat": now, "exp": now + 3600, "encke": encke})
            kind, body = "application/json", json.dumps({"token": token, "url": URL}).encode()
        elif path:
            body = (HERE / path).read_bytes()
        self.send_response(404 if kind == "text/plain" else 200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)
server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Backend)
print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
