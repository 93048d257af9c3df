"""Asks any server of Pusher Channels what Encke's tests ask Encke: a line for each case it fails.

    run.py --listen 127.0.0.1:8000 --api 127.0.0.1:8001 [--apps FILE] [--start COMMAND]

FILE is a list of three apps, of which this program takes `id`, `key` and `secret`. The server must
know them with what the list beside this program says of them. An app that FILE lacks is not asked
for: its cases are left out. The cases are those of crates/encke/tests/it/pusher/cases.json, and
conformance.rs beside them explains their language. The body of a refusal of the HTTP API is each
server's own, so only its status is compared.

The server must be new, for it keeps events of channels that cache. With --start this program starts
it, and starts it anew behind each case that has failed: such a case may leave something, or end the
server. With --loose, an answer to a trigger may say more than `{}`. It takes websocket-client.
Exit code: 0 if all passed, else 1.
"""

import argparse
import hashlib
import hmac
import http.client
import json
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import time

import websocket

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE.parent.parent / "crates/encke/tests/it/pusher/cases.json"

# How long a server may take to listen, in seconds.
START_S = 30

# Between two tries, in seconds.
PAUSE_S = 0.05

# What is printed of what was heard, at most.
SHOWN_MAX = 160


class Fault(Exception):
    """What the server did instead."""


def shown(heard):
    text = json.dumps(heard, ensure_ascii=False)
    return text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…"


def is_so(heard, wanted):
    """Whether what was heard is what was wanted, as conformance.rs compares them."""
    if isinstance(wanted, dict) and isinstance(heard, str):
        try:
            return is_so(json.loads(heard), wanted)
        except ValueError:
            return False
    if isinstance(wanted, dict) and isinstance(heard, dict):
        if not wanted:
            return not heard
        named = wanted.items()
        return all(is_so(heard[k], v) if k in heard else v is None for k, v in named)
    # Of Python, 1 is True and 1.0 as well.
    return json.dumps(heard, sort_keys=True) == json.dumps(wanted, sort_keys=True)


class App:
    def __init__(self, settings):
        self.id, self.key = settings["id"], settings["key"]
        self.secret = settings["secret"].encode()

    def sign(self, text):
        return hmac.digest(self.secret, text.encode(), hashlib.sha256).hex()

    def auth(self, socket_id, data):
        """The signature of what a frame says in its `data`."""
        if "user_data" in data:
            text = f"{socket_id}::user::{data['user_data']}"
        else:
            signed = [socket_id, data["channel"], data.get("channel_data")]
            text = ":".join(part for part in signed if part is not None)
        return f"{self.key}:{self.sign(text)}"


class Server:
    def __init__(self, options):
        self.listen, self.at, self.patience_s = options.listen, options.api, options.patience
        self.is_loose, self.command, self.process = options.loose, options.start, None

    def start(self):
        """Starts it anew, if it is this program's to start."""
        if not self.command:
            return
        self.stop()
        nowhere = subprocess.DEVNULL
        self.process = subprocess.Popen(self.command, stdout=nowhere, stderr=nowhere)
        if not self.until(lambda: self.is_open(self.listen) and self.is_open(self.at), START_S):
            self.stop()
            sys.exit("the server does not listen")

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def is_open(self, address):
        host, port = address.rsplit(":", 1)
        try:
            socket.create_connection((host, int(port)), self.patience_s).close()
        except OSError:
            return False
        return True

    def ask(self, app, method, path, given):
        """The status and the JSON of an answer to a signed request."""
        body, query = "", dict(given)
        if method == "POST":
            body = json.dumps(given, ensure_ascii=False)
            query = {"body_md5": hashlib.md5(body.encode()).hexdigest()}
        query |= {"auth_key": app.key, "auth_timestamp": int(time.time()), "auth_version": "1.0"}
        path = f"/apps/{app.id}{path}"
        query = "&".join(f"{name}={value}" for name, value in sorted(query.items()))
        signature = app.sign(f"{method}\n{path}\n{query}")
        connection = http.client.HTTPConnection(self.at, timeout=self.patience_s)
        try:
            fields = {"Content-Type": "application/json"}
            target = f"{path}?{query}&auth_signature={signature}"
            connection.request(method, target, body.encode() or None, fields)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as fault:
            raise Fault(f"{method} {path}: no answer: {fault!r}") from None
        finally:
            connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def until(self, is_done, patience_s=None):
        """Tries again until it is done, or too long has passed. Whether it is."""
        end = time.monotonic() + (patience_s or self.patience_s)
        while not (done := is_done()) and time.monotonic() < end:
            time.sleep(PAUSE_S)
        return done


class Client:
    def __init__(self, server, path):
        url = f"ws://{server.listen}{path}"
        try:
            self.socket = websocket.create_connection(
                url, timeout=server.patience_s, suppress_origin=True
            )
        except (OSError, websocket.WebSocketException) as fault:
            raise Fault(f"no WebSocket: {fault}") from None

    def message(self):
        """The opcode and the payload of the next message that is neither ping nor pong."""
        opcode, frame = websocket.ABNF.OPCODE_PING, None
        while opcode in (websocket.ABNF.OPCODE_PING, websocket.ABNF.OPCODE_PONG):
            try:
                opcode, frame = self.socket.recv_data_frame(control_frame=True)
            except websocket.WebSocketTimeoutException:
                raise Fault("hears nothing") from None
            except (OSError, websocket.WebSocketException) as fault:
                raise Fault(f"the connection is gone: {fault}") from None
        return opcode, frame.data

    def hear(self):
        opcode, data = self.message()
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            raise Fault(f"is closed with {code_of(data)}")
        try:
            return json.loads(data)
        except ValueError:
            raise Fault(f"hears no JSON: {data!r}") from None

    def say(self, text):
        try:
            self.socket.send(text)
        except (OSError, websocket.WebSocketException) as fault:
            raise Fault(f"the connection is gone: {fault}") from None

    def end(self):
        """The code of the close frame that comes, perhaps behind other messages."""
        opcode, data = self.message()
        while opcode != websocket.ABNF.OPCODE_CLOSE:
            opcode, data = self.message()
        return code_of(data)


def code_of(payload):
    return int.from_bytes(payload[:2], "big") if payload else None


class Case:
    def __init__(self, server, apps, case):
        self.server, self.clients, self.ids = server, {}, {}
        self.app, self.steps = apps[case.get("app", "1")], case["steps"]

    def run(self):
        try:
            for step in self.steps:
                self.step(step)
        finally:
            [client.socket.close() for client in self.clients.values()]

    def step(self, step):
        if step[0] in ("GET", "POST"):
            return self.call(*step)
        who, does = step[0].split(" ", 1)
        try:
            match does:
                case "opens":
                    self.open(who, *step[1:])
                case "says":
                    self.say(who, step[1])
                case "hears":
                    self.hear(who, step[1])
                case "hears nothing":
                    self.hear_nothing(who)
                case "goes":
                    self.clients.pop(who).socket.close()
                case "ends":
                    code = self.clients.pop(who).end()
                    if code != step[1]:
                        raise Fault(f"is closed with {code} in place of {step[1]}")
                case _:
                    sys.exit(f"what is {step[0]}?")
        except Fault as fault:
            raise Fault(f"{who} {fault}, at {shown(step)}") from None

    def open(self, who, path=None):
        path = path or f"/app/{self.app.key}?protocol=7&client=js&version=8.6.0"
        refused = path.startswith("refused ")
        client = self.clients[who] = Client(self.server, path.removeprefix("refused "))
        first = client.hear()
        wanted = "pusher:error" if refused else "pusher:connection_established"
        if first.get("event") != wanted:
            raise Fault(f"hears {shown(first)}")
        if refused:
            return
        try:
            data = json.loads(first["data"])
            timeout, self.ids[who] = data["activity_timeout"], data["socket_id"]
            is_good = re.fullmatch(r"\d+\.\d+", self.ids[who]) and 1 <= timeout <= 120
        except (KeyError, TypeError, ValueError):
            is_good = False
        if not is_good:
            raise Fault(f"hears {shown(first)}")

    def say(self, who, frame):
        if isinstance(frame, str):
            return self.clients[who].say(frame)
        data = frame.get("data")
        if isinstance(data, dict) and data.get("auth") == "sign":
            frame = frame | {"data": data | {"auth": self.app.auth(self.ids[who], data)}}
        self.clients[who].say(json.dumps(frame, ensure_ascii=False))

    def hear(self, who, wanted):
        heard = self.clients[who].hear()
        if not is_so(heard, wanted):
            raise Fault(f"hears {shown(heard)}")

    def hear_nothing(self, who):
        """Nothing has come before the answer to a ping."""
        self.say(who, {"event": "pusher:ping", "data": {}})
        self.hear(who, {"event": "pusher:pong"})

    def call(self, method, path, given, status, wanted):
        """A request of a backend. A GET is asked again until it is answered so: what clients have
        just done may not be known yet."""
        text = json.dumps(given)
        for who, id in self.ids.items():
            text = text.replace(f"${who}", id)
        given, last = json.loads(text), None
        is_any = status >= 400 or self.server.is_loose and method == "POST" and not wanted

        def is_answered():
            nonlocal last
            last = self.server.ask(self.app, method, path, given)
            return last[0] == status and (is_any or is_so(last[1], wanted))

        if not (is_answered() or method == "GET" and self.server.until(is_answered)):
            asked = f"{method} {path} {shown(given)}"
            raise Fault(f"{last[0]} {shown(last[1])} in place of {status} to {asked}")

    def wait_empty(self):
        """Waits until nobody is left, as far as the server tells of it."""
        kinds = [("connections", 0), ("channels", {}), ("channels/presence-r/users", [])]

        def is_empty():
            for path, empty in kinds:
                status, told = self.server.ask(self.app, "GET", f"/{path}", {})
                if status == 200 and not is_so(told, {path.split("/")[-1]: empty}):
                    return False
            return True

        if not self.server.until(is_empty):
            raise Fault("somebody is still there when all clients have gone")


def attempt(server, apps, case):
    """What was heard where it should not have been, or nothing if the case has passed."""
    tried, faults = Case(server, apps, case), []
    for part in (tried.run, tried.wait_empty):
        try:
            part()
        except Fault as fault:
            faults.append(fault)
    return faults[0] if faults else None


def with_keys(text, apps):
    """A case with the keys of these apps, and the numbers of the apps that it asks for."""
    asked = set(re.findall(r"/app/app-(\d)", text)) | {json.loads(text).get("app", "1")}
    for number, app in apps.items():
        text = re.sub(rf"app-{number}\b", app.key, text)
    return json.loads(text), asked


def ask_all(server, apps, options):
    """How many cases have passed, failed and been left out."""
    passed = failed = left_out = 0
    server.start()
    for case in json.loads(options.cases.read_text()):
        name = case["name"]
        if options.name not in name:
            continue
        case, asked = with_keys(json.dumps(case), apps)
        if asked - set(apps):
            left_out += 1
            print(f"left out: {name}: there is no such app", flush=True)
        elif fault := attempt(server, apps, case):
            failed += 1
            print(f"failed: {name}: {fault}", flush=True)
            server.start()
        else:
            passed += 1
    return passed, failed, left_out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listen", required=True, help="HOST:PORT for clients")
    parser.add_argument("--api", required=True, help="HOST:PORT for backends")
    parser.add_argument("--apps", type=pathlib.Path, default=HERE / "apps.json")
    parser.add_argument("--cases", type=pathlib.Path, default=CASES)
    parser.add_argument("--name", default="", help="only cases with this in their names")
    parser.add_argument("--patience", type=float, default=5, help="seconds for what is to come")
    parser.add_argument("--start", type=shlex.split, help="the command of the server")
    parser.add_argument("--loose", action="store_true", help="take any answer in place of {}")
    options = parser.parse_args()
    settings = json.loads(options.apps.read_text())
    apps = {str(at): App(app) for at, app in enumerate(settings, 1)}
    server = Server(options)
    try:
        passed, failed, left_out = ask_all(server, apps, options)
    finally:
        server.stop()
    print(f"passed {passed}, failed {failed}, left out {left_out}")
    sys.exit(1 if failed or left_out or not passed else 0)


main()
