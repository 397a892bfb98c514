// A line of a terminal as text. A log is stored with U+FFFD in the place of ESC, CR, BEL and the other control
// characters, so that sequences are recognized by what follows, and overwritten text by its likeness to what replaces it.

// Control characters that are left after the colours, bidirectional overrides and zero-width characters: they could
// hide or reorder text.
const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to remove
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with ESC
const OSC = /[\u001b\ufffd]\]\d+;[^\u0007\u001b\ufffd]*(?:\u0007|[\u001b\ufffd]\\?)/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with ESC
const OTHER_SEQUENCES = /\u001b(?:\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\[[0-9;?]*[A-LN-Za-ln-z]|[@-Z\\-_])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with ESC
const ERASED = /^.*(?:[\r\ufffd]\u001b\[[0-2]?K|\u001b\[[12]K[\r\ufffd])/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with ESC
const COLOURS = /\u001b\[[0-9;]*m/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to look for
const SUSPECT = /[\u0000-\u0008\u000b-\u001f\ufffd]/;

/** The line with colour sequences only, and only what a terminal would show at the end of it. */
export function withColours(line: string): string {
  if (!SUSPECT.test(line)) return line;
  const escaped = line.replace(OSC, "").replace(/\ufffd(?=\[[0-9;?]*[A-Za-z])/g, "\u001b");
  return lastState(escaped).replace(OTHER_SEQUENCES, "");
}

export function withoutUnsafe(text: string): string {
  return text.replace(UNSAFE, "");
}

/** The line as it is read: for a search. */
export function plainLine(line: string): string {
  return withoutUnsafe(withColours(line).replace(COLOURS, ""));
}

/** A carriage return starts the line over: progress bars show their last state. */
function lastState(line: string): string {
  const last =
    line
      .replace(/[\r\ufffd]+$/, "")
      .split("\r")
      .at(-1) ?? "";
  const [first = "", ...more] = last.replace(ERASED, "").split("\ufffd");
  return more.reduce((shown, next) => (isNextState(shown, next) ? next : `${shown}\ufffd${next}`), first);
}

const ALIKE_MIN = 3;

/** Whether two parts look like states of one line, such as `10 % of 3 MB` and `20 % of 3 MB`: most of them is the same. */
function isNextState(before: string, after: string): boolean {
  const [a, b] = [before.replace(COLOURS, ""), after.replace(COLOURS, "")];
  const length = Math.min(a.length, b.length);
  let alike = 0;
  while (alike < length && a[alike] === b[alike]) alike += 1;
  let tail = 0;
  while (tail < length - alike && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  return alike + tail >= Math.max(ALIKE_MIN, length / 2);
}
