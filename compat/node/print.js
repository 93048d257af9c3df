// What every program here does with an event: one line of JSON, as the application has seen it.

/** The stream's address. */
export const url = process.argv[2];

/** How long who reconnects by hand waits, in milliseconds. */
export const PAUSE_MS = 200;

export function print(id, type, data) {
  process.stdout.write(JSON.stringify({ id: id ?? null, type: type ?? null, data }) + "\n");
}
