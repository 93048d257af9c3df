"""Runs tlsfuzzer against the streams' port, or with `--api` against the API's.

    cargo build -p encke && python3 xtask/tlsfuzzer/run.py [--api] [SCRIPT...]

Both versions are pinned. What is fetched and what each script says is below `target/tlsfuzzer`.
Which scripts are run, how, and what is known not to hold, stands in `scripts.py`; who fails
otherwise is named, and the exit status is 1. It is not part of `cargo xtask ci`: three minutes, and
a checkout of somebody else's.
"""

import json
import os
import re
import subprocess
import sys
import venv
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import scripts

REPOSITORY = "https://github.com/tlsfuzzer/tlsfuzzer"
COMMIT = "14555fe211456c46deccc4b2d94751dbd894aece"
LIBRARIES = ["tlslite-ng==0.9.0b2"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "target" / "tlsfuzzer"
CHECKOUT = Path(os.environ.get("TLSFUZZER", WORK / "checkout"))
PYTHON = WORK / "python" / "bin" / "python"
ENCKE = os.environ.get("ENCKE", ROOT / "target" / "debug" / "encke")

IS_API = "--api" in sys.argv
KNOWN = scripts.KNOWN + (scripts.KNOWN_AT_API if IS_API else [])

# Scripts wait for what does not come, so more of them at a time than there are cores.
AT_A_TIME = 4
SECONDS_MAX = 900


def prepare():
    """Fetches what is pinned, once."""
    if not CHECKOUT.exists():
        subprocess.run(["git", "clone", "-q", REPOSITORY, CHECKOUT], check=True)
        subprocess.run(["git", "-C", CHECKOUT, "checkout", "-q", COMMIT], check=True)
    if not PYTHON.exists():
        venv.create(WORK / "python", with_pip=True)
        subprocess.run([PYTHON, "-m", "pip", "install", "-q", *LIBRARIES], check=True)


class Server:
    """Encke with a certificate of its own that has such a key."""

    def __init__(self, kind, key):
        folder = WORK / kind
        folder.mkdir(parents=True, exist_ok=True)
        pair = [folder / "own.pem", folder / "own.key"]
        command = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        command += ["-newkey", *key, "-addext", "subjectAltName=DNS:localhost"]
        command += ["-out", pair[0], "-keyout", pair[1]]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        free = "127.0.0.1:0"
        command = [ENCKE, "serve", "--json", "--listen=none", f"--api={free}", f"--data={folder}"]
        command += [f"--tls-listen={free}", f"--tls-api={free}"]
        command += [f"--tls-cert={pair[0]}", f"--tls-key={pair[1]}"]
        log = open(folder / "log", "w")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        told = json.loads(self.process.stdout.readline())
        place = "tls_api" if IS_API else "tls_listen"
        self.port = told[place].split(":")[-1]

    def end(self):
        self.process.terminate()
        self.process.wait()


def run(job, server):
    """What a script says, as text."""
    name, kind, arguments, adapt = job
    script = CHECKOUT / "tlsfuzzer" / "_apps" / f"test_{name}.py"
    options = ["-h", "127.0.0.1", "-p", server.port]
    source = script.read_text()
    if "'-n'" in source:
        # All of them, not some that are drawn.
        options += ["-n", "0"]
    if adapt == 1:
        options += ["-d"] if "'-d'" in source else ["-C", scripts.SUITE[kind]]
    command = [PYTHON, HERE / "adapt.py", str(adapt), kind, script, *options, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    file = WORK / f"{name}-{kind}.txt"
    with open(file, "w") as said:
        try:
            subprocess.run(command, stdout=said, stderr=said, env=environment, timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            print("not done in time", file=said)
    return file.read_text(errors="replace")


def judge(name, said):
    """How many conversations passed; of the others why, where that is known, else what they say."""
    passed = re.search(r"^PASS: (\d+)$", said, re.M)
    if not passed:
        return 0, [], [(name, said.strip().splitlines()[-1:])]
    known, unknown = [], []
    failed = int(re.search(r"^FAIL: (\d+)$", said, re.M)[1])
    begin = r"^([^\n]+?) ?\.\.\.\n"
    runs = re.findall(rf"{begin}(.*?)(?={begin}|^Test end|\Z)", said, re.M | re.S)
    for conversation, told, _ in runs if failed else []:
        if re.search(r"^OK", told, re.M):
            continue
        errors = re.findall(r"^[\w.]*(?:Error|Exception)\b.*", told, re.M)
        error = errors[-1] if errors else "no reason"
        for why, script, which, what in KNOWN:
            fits = re.fullmatch(script, name) and re.search(which, conversation)
            if fits and re.search(what, error):
                known.append(why)
                break
        else:
            unknown.append((conversation, error))
    # One of them counts what it says twice.
    if len(known) + len(unknown) < failed / 2:
        unknown.append((name, f"{failed} failed"))
    return int(passed[1]), known, unknown


def main():
    prepare()
    wanted = [name for name in sys.argv[1:] if name != "--api"]
    there = {path.stem[5:] for path in (CHECKOUT / "tlsfuzzer" / "_apps").glob("test_*.py")}
    listed = {job[0] for job in scripts.JOBS}
    listed |= {name for _, names in scripts.LEFT_OUT for name in names}
    assert there == listed, f"neither run nor left out, or not there: {there ^ listed}"
    jobs = [job for job in scripts.JOBS if not wanted or job[0] in wanted]
    keys = {"rsa": ["rsa:2048"], "ecdsa": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]}
    servers = {kind: Server(kind, key) for kind, key in keys.items()}
    passed, known, unknown, whole = 0, Counter(), 0, 0
    try:
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            texts = pool.map(lambda job: run(job, servers[job[1]]), jobs)
            for job, said in zip(jobs, texts):
                good, explained, others = judge(job[0], said)
                print(f"{job[0]} ({job[1]}): {good} passed, {len(explained)} known", flush=True)
                for conversation, error in others:
                    print(f"  UNKNOWN {conversation}: {error}", flush=True)
                passed += good
                known.update(explained)
                unknown += len(others)
                whole += not explained and not others
    finally:
        for server in servers.values():
            server.end()
    out = sum(len(names) for _, names in scripts.LEFT_OUT)
    print(f"{len(there)} scripts, {out} of them left out; {len(jobs)} runs, {whole} without a")
    print("failure; conversations:")
    print(f"{passed:6} passed")
    for why, count in known.most_common():
        print(f"{count:6} failed: {why}")
    print(f"{unknown:6} failed for a reason that is not known")
    sys.exit(unknown > 0)


main()
