"""Asks any Mercure hub what Encke's tests ask Encke: one line for each case that it fails.

    run.py http://127.0.0.1:3000/.well-known/mercure --key FILE

The hub must let clients without a token listen, list the origin http://page.test, and take tokens
of the key in FILE (HS256). With --dialect 1.0 it is asked the cases of Mercure 1.0 instead of those
of the drafts up to 07; it must know the issuer https://app.example, and as itself the audience
https://hub.example/.well-known/mercure. The cases are those of crates/encke/tests/it/mercure/cases.jsonl; what
one has is told in compat/README.md. With --stored COUNT so many updates are published as well, and
the newest ones must be found. It needs nothing but Python. Exit code: 0 if all passed, else 1.
"""

import argparse
import base64
import hashlib
import hmac
import http.client
import json
import pathlib
import secrets
import sys
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE.parent.parent / "crates/encke/tests/it/mercure/cases.jsonl"

ORIGINS = {"listed": "http://page.test", "foreign": "http://foreign.test"}
FORM = "application/x-www-form-urlencoded"

# How long a hub may take for one answer or one event, in seconds.
PATIENCE_S = 30

# What this program knows of a case. One that says more is left out, not half tried.
CLIENT = {"claims", "claim", "expired", "token", "scheme", "by", "details", "set", "typ"}
KNOWN = {
    "subscribe": CLIENT | {"query", "method", "body"},
    "publish": CLIENT | {"form", "content_type", "origin"},
    "place": {"published", "ask", "field", "replayed", "v1"},
    "list": CLIENT | {"path", "status", "listed", "challenge"},
}
FLAT = {"name", "hears", "lines", "status", "challenge"}

# What a token of 1.0 says, but for what its case sets.
ACCESS = {
    "iss": "https://app.example",
    "aud": "https://hub.example/.well-known/mercure",
    "exp": 4_102_444_800,
}
METADATA = "https://hub.example/.well-known/oauth-protected-resource/.well-known/mercure"
ALL = {
    "type": "https://mercure.rocks/authorization-detail",
    "actions": ["publish"],
    "topics": [{"match": "*"}],
}


class Fault(Exception):
    """What the hub did instead."""


class Stream:
    """An answer to a subscription, event by event."""

    def __init__(self, hub, query, fields, method="GET", body=None):
        self.connection, self.answer = hub.ask(method, query, fields, body)
        if self.answer.status != 200:
            raise Fault(f"the subscription is answered {self.answer.status}")

    def event(self):
        """The lines of the next event, without comments."""
        lines = []
        while True:
            try:
                line = self.answer.readline()
            except OSError:
                raise Fault("no event") from None
            if not line:
                raise Fault("the stream ends")
            line = line.decode().removesuffix("\n")
            if line and not line.startswith(":"):
                lines.append(line)
            elif not line and lines:
                return lines

    def close(self):
        self.connection.close()


class Hub:
    def __init__(self, url, secret, is_v1):
        self.at, self.path, self.secret, self.is_v1 = url.netloc, url.path, secret, is_v1
        self.topic = "match" if is_v1 else "topic"
        self.place_field = "Mercure-Last-Event-ID" if is_v1 else "Last-Event-ID"

    def ask(self, method, query, fields, body=None, below=""):
        connection = http.client.HTTPConnection(self.at, timeout=PATIENCE_S)
        path = self.path + below
        target = f"{path}?{query}" if query else path
        try:
            connection.request(method, target, body, fields)
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as fault:
            raise Fault(f"no answer: {fault!r}") from None

    def token(self, claims, typ="JWT"):
        def part(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

        head = part(json.dumps({"alg": "HS256", "typ": typ}).encode())
        signed = f"{head}.{part(json.dumps(claims).encode())}"
        tag = hmac.digest(self.secret, signed.encode(), hashlib.sha256)
        return f"{signed}.{part(tag)}"

    def shown(self, client):
        """The query and the header fields by which a client shows its token."""
        token, cookie = client.get("token"), "mercureAuthorization"
        if details := client.get("details"):
            claims = ACCESS | {"authorization_details": details} | client.get("set", {})
            claims = {name: value for name, value in claims.items() if value is not None}
            token = self.token(claims, client.get("typ", "at+jwt"))
            cookie = "__Secure-mercure_access_token"
        if token is None and client.get("claims") is None:
            return {}, {}
        if token is None:
            claims = {client.get("claim", "mercure"): client["claims"]}
            token = self.token(claims | ({"exp": 1} if client.get("expired") else {}))
        match client.get("by"):
            case "query":
                return {"authorization": token}, {}
            case "cookie":
                return {}, {"Cookie": f"{cookie}={token}"}
        return {}, {"Authorization": f"{client.get('scheme', 'Bearer')} {token}"}

    def publish(self, publish):
        """The answer and its body."""
        query, fields = self.shown(publish)
        fields["Content-Type"] = publish.get("content_type", FORM)
        if "origin" in publish:
            fields["Origin"] = ORIGINS[publish["origin"]]
        form = urllib.parse.urlencode([tuple(pair) for pair in publish["form"]])
        connection, answer = self.ask("POST", urllib.parse.urlencode(query), fields, form)
        body = answer.read().decode()
        connection.close()
        return answer, body

    def publish_well(self, *form):
        by = {"details": [ALL]} if self.is_v1 else {"claims": {"publish": ["*"]}}
        answer, body = self.publish(by | {"form": form})
        if answer.status != 200:
            raise Fault(f"the publish is answered {answer.status}")
        return body

    def subscribe(self, subscribe, *more):
        """The query, header fields, method and body of a subscription."""
        query, fields = self.shown(subscribe)
        pairs = [tuple(pair) for pair in subscribe["query"]] + list(more) + list(query.items())
        method, body = subscribe.get("method", "GET"), None
        if method == "QUERY":
            fields["Content-Type"] = FORM
            body = urllib.parse.urlencode([tuple(pair) for pair in subscribe.get("body", [])])
        return urllib.parse.urlencode(pairs), fields, method, body


def in_order(lines):
    """Lines of an event: the order of those that are no data says nothing."""
    return sorted(lines, key=lambda line: "data" if line.startswith("data:") else line)


def expect(stream, lines):
    heard = stream.event()
    if in_order(heard) != in_order(lines):
        raise Fault(f"hears {heard}")


def hears_nothing_else(hub, stream, topic):
    """The stream has nothing before what is published now."""
    id = hub.publish_well(("topic", topic), ("data", "end"))
    expect(stream, [f"id: {id}", "data: end"])


def try_hears(hub, case, own):
    subscribe = case["subscribe"]
    is_v1 = "body" in subscribe or any(name.startswith("match") for name, _ in subscribe["query"])
    end = ("match" if is_v1 else "topic", f"end-{own}")
    stream = Stream(hub, *hub.subscribe(subscribe, end))
    try:
        answer, body = hub.publish(case["publish"])
        if answer.status != 200:
            raise Fault(f"the publish is answered {answer.status}")
        if case["hears"]:
            expect(stream, case.get("lines") or [f"id: {body}", "data: x"])
        hears_nothing_else(hub, stream, f"end-{own}")
    finally:
        stream.close()


def try_status(hub, case, own):
    if "publish" in case:
        answer, _ = hub.publish(case["publish"])
    else:
        query, fields, method, body = hub.subscribe(case["subscribe"])
        connection, answer = hub.ask(method, query, fields, body)
        connection.close()
    if answer.status not in case["status"]:
        raise Fault(f"answers {answer.status}")
    code = case.get("challenge")
    if code is not None:
        code = f'error="{code}", ' if code else ""
        challenge = answer.getheader("WWW-Authenticate")
        if challenge != f'Bearer {code}resource_metadata="{METADATA}"':
            raise Fault(f"challenges by {challenge!r}")


def try_place(hub, case, own):
    place, topic = case["place"], f"place-{own}"

    def of(id):
        return f"urn:{own}:{id}" if id in ("1", "2", "3") else id

    for id in place["published"]:
        hub.publish_well(("topic", topic), ("data", "x"), ("id", of(id)))
    query, fields = [(hub.topic, topic)], {}
    for parameter, id in place["ask"].items():
        if parameter == "header":
            fields["Last-Event-ID"] = of(id)
        else:
            query.append((parameter, of(id)))
    stream = Stream(hub, urllib.parse.urlencode(query), fields)
    try:
        field = stream.answer.getheader(hub.place_field)
        is_now = place["field"] == "now" and field and field not in ("earliest", "now")
        if not is_now and field != (place["field"] and of(place["field"])):
            raise Fault(f"the field {hub.place_field} is {field!r}")
        for id in place["replayed"]:
            if id == "gap":
                expect_gap(hub, stream, topic)
            else:
                expect(stream, [f"id: {of(id)}", "data: x"])
        hears_nothing_else(hub, stream, topic)
    finally:
        stream.close()


def expect_gap(hub, stream, topic):
    """A gap is told before anything else: what is published now ends the wait where none is."""
    hub.publish_well(("topic", topic), ("data", "after the gap"))
    if (heard := stream.event())[0] != "event: gap":
        raise Fault(f"tells of no gap: hears {heard}")
    stream.event()


def try_stored(hub, stored, missed, own):
    """Who missed the newest of many updates hears them in one stream. Each id is of `stored`."""
    first = len(stored) - missed
    query = [("topic", f"stored-{own}/{{n}}"), ("lastEventID", stored[first - 1])]
    if hub.is_v1:
        query = [("match_urlpattern", f"stored-{own}/:n"), ("last_event_id", stored[first - 1])]
    stream = Stream(hub, urllib.parse.urlencode(query), {})
    try:
        if stream.answer.getheader(hub.place_field) != stored[first - 1]:
            raise Fault("its place is not found")
        for number in range(first, len(stored)):
            try:
                expect(stream, [f"id: {stored[number]}", f"data: {number}"])
            except Fault as fault:
                raise Fault(f"{number - first} come, then {fault}") from None
    finally:
        stream.close()


def try_list(hub, case, own):
    wanted, (query, fields) = case["list"], hub.shown(case["list"])
    stream = Stream(hub, *hub.subscribe(case["subscribe"]))
    connection, answer = hub.ask(
        "GET", urllib.parse.urlencode(query), fields, below="/subscriptions" + wanted["path"]
    )
    body = answer.read().decode()
    connection.close()
    stream.close()
    if answer.status != wanted["status"]:
        raise Fault(f"the list is answered {answer.status}")
    if "listed" not in wanted:
        return
    named = {"match_type", "match", "topic", "payload"}
    listed = [
        {member: value for member, value in one.items() if member in named}
        for one in json.loads(body)["subscriptions"]
    ]
    if listed != wanted["listed"]:
        raise Fault(f"the list has {listed}")


def store(hub, count, own):
    """The ids of so many updates, of 100 topics in turn."""
    of = [("topic", f"stored-{own}/{number % 100}") for number in range(count)]
    return [hub.publish_well(topic, ("data", number)) for number, topic in enumerate(of)]


def unknown(case):
    """Members of a case that this program knows nothing of."""
    more = set(case) - FLAT - set(KNOWN)
    for part, members in KNOWN.items():
        more |= set(case.get(part) or ()) - members
    return more


def try_case(hub, case, own):
    tries = {"hears": try_hears, "status": try_status, "place": try_place, "list": try_list}
    [each(hub, case, own) for member, each in tries.items() if member in case]


class Report:
    """What has passed, and what has not, which is told at once."""

    def __init__(self):
        self.passed, self.failed, self.left_out = 0, 0, 0

    def attempt(self, name, each, *given):
        try:
            each(*given)
            self.passed += 1
        except Fault as fault:
            self.failed += 1
            print(f"failed: {name}: {fault}")

    def leave_out(self, name, members):
        self.left_out += 1
        print(f"left out: {name}: says {', '.join(sorted(members))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hub", type=urllib.parse.urlsplit, help="URL of the hub")
    parser.add_argument("--key", type=pathlib.Path, required=True, help="file with its secret")
    parser.add_argument("--dialect", choices=["old", "1.0"], default="old")
    parser.add_argument("--cases", type=pathlib.Path, default=CASES)
    parser.add_argument("--name", default="", help="only cases with this in their names")
    parser.add_argument("--stored", type=int, default=0, help="updates to be remembered")
    options = parser.parse_args()
    is_v1 = options.dialect == "1.0"
    hub = Hub(options.hub, options.key.read_bytes().strip(), is_v1)
    # Texts of its own: a hub may remember what an earlier run has published.
    report, run = Report(), secrets.token_hex(4)
    for number, line in enumerate(options.cases.read_text().splitlines()):
        own = f"{run}-{number}"
        case = json.loads(line.replace("${u}", own))
        if options.name not in case["name"] or case["name"].startswith("1.0 ") != is_v1:
            continue
        if more := unknown(case):
            report.leave_out(case["name"], more)
        else:
            report.attempt(case["name"], try_case, hub, case, own)
    if options.stored:
        stored = store(hub, options.stored, run)
        for missed in (50, 2_000):
            name = f"{missed} missed of {options.stored}"
            report.attempt(name, try_stored, hub, stored, missed, run)
    print(f"passed {report.passed}, failed {report.failed}, left out {report.left_out}")
    sys.exit(1 if report.failed or report.left_out or not report.passed else 0)


main()
