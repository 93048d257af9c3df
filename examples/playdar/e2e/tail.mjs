#!/usr/bin/env node
/**
 * A script resolver for the tests: whatever is asked it answers in pieces, a result each tenth of a
 * second, worse and better ones in turn. What "Markup" sings has names that try to be markup.
 *
 * "None" it does not know, and nothing that it gives can be played.
 */

const PIECE_MS = 100;

const SETTINGS = { _msgtype: "settings", name: "tail", targettime: 1500, weight: 20 };

/** Sources, albums and scores in the order in which they are found; none solves the query. */
const FOUND = [
  ["kitchen", "Perihelion", 0.8],
  ["Olga’s laptop", "Return of the Comet", 0.9],
  ["attic", "Rehearsals", 0.7],
  ["nas", "Aphelion (Deluxe Edition)", 0.95],
  ["William’s phone", "Live at the Observatory", 0.75],
  ["car", "", 0.65],
  ["office", "Nucleus", 0.85],
  ["shed", "Dust and Ice", 0.62],
];

const MARKUP = [
  "<script>globalThis.hacked = 1</script>",
  "<img src=x onerror='globalThis.hacked = 2'>",
  "\u202e</b>&lt;i&gt; \"quoted\" 'and' `ticked`",
];

function write(message) {
  const body = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  process.stdout.write(Buffer.concat([head, body]));
}

function answer({ qid, artist, track }) {
  FOUND.forEach(([place, title, score], at) => {
    const [source, album] = artist === "Markup" ? [MARKUP[at % 3], MARKUP[at % 3]] : [place, title];
    const facts = { mimetype: "audio/mpeg", bitrate: 160, size: 3_740_000, duration: 187 + at };
    const result = { artist, track, album, score, source, ...facts, url: "http://127.0.0.1:9/" };
    const send = () => write({ _msgtype: "results", qid, results: [result] });
    setTimeout(send, PIECE_MS * (at + 1));
  });
}

let buffered = Buffer.alloc(0);
process.stdin.on("end", () => process.exit());
process.stdin.on("data", (chunk) => {
  buffered = Buffer.concat([buffered, chunk]);
  while (buffered.length >= 4 && buffered.length >= 4 + buffered.readUInt32BE(0)) {
    const end = 4 + buffered.readUInt32BE(0);
    const message = JSON.parse(buffered.subarray(4, end).toString());
    buffered = buffered.subarray(end);
    if (message._msgtype === "rq" && message.artist !== "None") answer(message);
  }
});
write(SETTINGS);
