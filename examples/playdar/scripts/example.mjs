#!/usr/bin/env node
/**
 * A script resolver for Playdar in JavaScript (Node): copy it, and change `answer`.
 *
 * Playdar starts it and talks to it over its standard input and output. Each frame is the length of
 * what follows, in 4 bytes, the most significant one first, and then one JSON object in UTF-8 of at
 * most 4,096 bytes. What it writes to standard error comes into Playdar's log.
 *
 *     playdar --script examples/playdar/scripts/example.mjs
 */

const FRAME_BYTES_MAX = 4096;

const SETTINGS = {
  _msgtype: "settings",
  name: "Example in JavaScript",
  // Milliseconds in which it should answer; the next resolvers are asked after them.
  targettime: 200,
  // Resolvers of a higher weight are asked first: from 1 to 100.
  weight: 40,
  // Whether it hears only what programs of this machine ask.
  localonly: false,
};

/** The results for one query, an object each; an empty array where there is none. */
async function answer({ artist = "", track = "" }) {
  const wanted = `${artist}\n${track}`.toLowerCase();
  if (wanted !== "mokele\nhiding in your insides") {
    return [];
  }
  return [
    {
      artist: "Mokele",
      track: "Hiding In Your Insides",
      album: "You Yourself are Me Myself and I am in Love",
      source: "Mokele.co.uk",
      url: "http://www.playdar.org/hiding.mp3",
      mimetype: "audio/mpeg",
      size: 4971780,
      bitrate: 160,
      duration: 248,
      score: 0.987,
    },
  ];
}

/** The objects that Playdar sends, until it ends. */
async function* frames(input) {
  let buffered = Buffer.alloc(0);
  for await (const chunk of input) {
    buffered = Buffer.concat([buffered, chunk]);
    while (buffered.length >= 4) {
      const length = buffered.readUInt32BE(0);
      if (length > FRAME_BYTES_MAX) {
        throw new Error(`a frame of ${length} bytes: at most ${FRAME_BYTES_MAX} are allowed`);
      }
      if (buffered.length < 4 + length) {
        break;
      }
      yield JSON.parse(buffered.subarray(4, 4 + length).toString("utf8"));
      buffered = buffered.subarray(4 + length);
    }
  }
}

function write(message) {
  const body = Buffer.from(JSON.stringify(message), "utf8");
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  process.stdout.write(Buffer.concat([head, body]));
}

write(SETTINGS);
for await (const message of frames(process.stdin)) {
  if (message._msgtype !== "rq") {
    continue;
  }
  const results = await answer(message);
  if (results.length > 0) {
    write({ _msgtype: "results", qid: message.qid, results });
  }
}
