// What an event says, in words. Its payload may be anything: only what the demo sends is read.

/** An event of the stream. */
export interface Event {
  id: string;
  about: string;
  data: unknown;
}

export interface News {
  about: string;
  /** `listens`: a song of the demo; `says`: words of somebody in a tab; `other`: anything else. */
  kind: "listens" | "says" | "other";
  text: string;
  /** When it was to be sent, in milliseconds since 1970, if it tells. */
  sentMs: number | undefined;
}

const TEXT_MAX = 300;

export function read({ about, data }: Event): News {
  const fields = typeof data === "object" && data !== null ? (data as Record<string, unknown>) : {};
  const { song, says, sent_ms } = fields;
  const sentMs = typeof sent_ms === "number" ? sent_ms : undefined;
  if (typeof song === "string") return { about, kind: "listens", text: cut(song), sentMs };
  if (typeof says === "string") return { about, kind: "says", text: cut(says), sentMs };
  if (typeof data === "string") return { about, kind: "says", text: cut(data), sentMs };
  return { about, kind: "other", text: cut(JSON.stringify(data)), sentMs };
}

function cut(text: string): string {
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}…` : text;
}
