// Figures as people read them. Units are SI: a kB is 1,000 bytes, as in all that the program
// prints. A narrow space at which no line breaks (U+202F) keeps a figure and its unit together.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** 12,345 */
export function grouped(value: number): string {
  return whole.format(value);
}

/** 1 event, 12,345 events */
export function counted(value: number, name: string): string {
  return `${grouped(value)} ${name}${value === 1 ? "" : "s"}`;
}

/** 950, 12.3 k, 4.56 M: three digits that count. */
export function short(value: number): string {
  const units = ["", "\u202fk", "\u202fM", "\u202fG"];
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return digits(value, unit === 0 && Number.isInteger(value)) + units[unit];
}

/** 0, 500, 2.5 k: round numbers without the digits that are zero. */
export function tick(value: number): string {
  return trimmed(short(value));
}

/** Whatever was formatted, without zeros behind the point. */
export function trimmed(text: string): string {
  return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}

/** 512 B, 64.2 MB */
export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${digits(value, unit === 0)}\u202f${units[unit]}`;
}

/** 0.45 ms, 12.1 ms, 1.2 s, out of seconds. */
export function duration(seconds: number): string {
  if (seconds < 1e-3) return `${digits(seconds * 1e6, false)}\u202fµs`;
  if (seconds < 1) return `${digits(seconds * 1e3, false)}\u202fms`;
  return `${digits(seconds, false)}\u202fs`;
}

/** 12 s, 3 min, 2 h: how long ago something was. */
export function age(seconds: number): string {
  if (seconds < 120) return `${Math.floor(seconds)}\u202fs`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}\u202fmin`;
  return `${Math.floor(seconds / 3600)}\u202fh`;
}

/** 3 d 4:05:06 */
export function uptime(seconds: number): string {
  const all = Math.floor(seconds);
  const two = (value: number): string => String(value).padStart(2, "0");
  const time = `${Math.floor(all / 3600) % 24}:${two(Math.floor(all / 60) % 60)}:${two(all % 60)}`;
  const days = Math.floor(all / 86_400);
  return days > 0 ? `${days} d ${time}` : time;
}

function digits(value: number, isWhole: boolean): string {
  if (isWhole || value === 0) return whole.format(value);
  const places = Math.max(0, Math.min(2, 2 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toFixed(places);
}
