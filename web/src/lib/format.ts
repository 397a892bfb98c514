// One way to write times, money, counts and ids (ui-mock/README.md, rules 7 to 9).

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `4s`, `38m`, `2h 05m`, `3d 4h`: at most two units. */
export function duration(ms: number): string {
  const value = Math.max(0, ms);
  if (value < MINUTE) return `${Math.floor(value / SECOND)}s`;
  if (value < HOUR) return `${Math.floor(value / MINUTE)}m`;
  if (value < DAY) return `${Math.floor(value / HOUR)}h ${pad(Math.floor((value % HOUR) / MINUTE))}m`;
  return `${Math.floor(value / DAY)}d ${Math.floor((value % DAY) / HOUR)}h`;
}

/** A measured time: `48 ms`, `1.2 s`, then as a duration. */
export function took(ms: number): string {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${(ms / SECOND).toFixed(1)} s`;
  return duration(ms);
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

/** `14:32:08`, in UTC. */
export function clock(at: string | number | Date): string {
  const date = new Date(at);
  return `${pad(date.getUTCHours())}:${pad(date.getUTCMinutes())}:${pad(date.getUTCSeconds())}`;
}

/** `14:32`, in UTC. */
export function clockShort(at: string | number | Date): string {
  return clock(at).slice(0, 5);
}

/** `2026-11-18 14:32:08 UTC`. */
export function exact(at: string | number | Date): string {
  const date = new Date(at);
  return `${date.toISOString().slice(0, 10)} ${clock(date)} UTC`;
}

const moneyFormat = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD" });
export function money(usd: number): string {
  return moneyFormat.format(usd);
}

const countFormat = new Intl.NumberFormat("en-US");
export function count(value: number): string {
  return countFormat.format(value);
}

const compactFormat = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
/** `1.9M`, `38k`. */
export function compact(value: number): string {
  return compactFormat.format(value).replace("K", "k");
}

export function bytes(value: number): string {
  if (value < 1_000) return `${value} B`;
  const units = ["kB", "MB", "GB", "TB"] as const;
  let size = value / 1_000;
  let unit = 0;
  while (size >= 1_000 && unit < units.length - 1) {
    size /= 1_000;
    unit += 1;
  }
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** `1 job`, `2 jobs`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** The last 7 characters: UUIDv7 starts with the time. */
export function shortId(id: string): string {
  return id.slice(-7);
}

export function middleId(id: string): string {
  return id.length <= 18 ? id : `${id.slice(0, 8)}…${id.slice(-8)}`;
}

export function shortSha(sha: string): string {
  return sha.slice(0, 7);
}

/** First letter in upper case. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
