import Anser from "anser";
import { memo } from "react";

const CLASSES: Record<string, string> = {
  "ansi-red": "a-red",
  "ansi-bright-red": "a-red",
  "ansi-green": "a-green",
  "ansi-bright-green": "a-green",
  "ansi-yellow": "a-yellow",
  "ansi-bright-yellow": "a-yellow",
  "ansi-blue": "a-blue",
  "ansi-bright-blue": "a-blue",
  "ansi-cyan": "a-cyan",
  "ansi-bright-cyan": "a-cyan",
  "ansi-magenta": "a-magenta",
  "ansi-bright-magenta": "a-magenta",
  "ansi-black": "a-dim",
  "ansi-bright-black": "a-dim",
};

// Control characters that are left after the colours, and bidirectional overrides: they could hide or reorder text.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to remove
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with ESC
const OTHER_SEQUENCES = /\u001b(?:\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\[[0-9;?]*[A-LN-Za-ln-z]|[@-Z\\-_])/g;

/** A line of a terminal as elements: colours by class, never HTML. */
export const Ansi = memo(function Ansi({ text }: { text: string }) {
  const cleaned = withEscapes(lastOverwrite(text)).replace(OTHER_SEQUENCES, "");
  if (!cleaned.includes("\u001b")) return cleaned.replace(UNSAFE, "");
  return Anser.ansiToJson(cleaned, { use_classes: true, remove_empty: true }).map((part, index) => {
    const classes = [
      part.fg === null ? "" : (CLASSES[part.fg] ?? ""),
      part.decorations.includes("bold") ? "a-b" : "",
      part.decorations.includes("dim") ? "a-dim" : "",
    ].filter(Boolean);
    const content = part.content.replace(UNSAFE, "");
    return classes.length === 0 ? (
      content
    ) : (
      <span key={index} className={classes.join(" ")}>
        {content}
      </span>
    );
  });
});

/** A stored log has a replacement character in the place of ESC: in front of a sequence it is one. */
export function withEscapes(text: string): string {
  return text.replace(/\ufffd(?=\[[0-9;?]*[A-Za-z])/g, "\u001b");
}

/** A carriage return starts the line over: progress bars show their last state. */
function lastOverwrite(line: string): string {
  const parts = line.replace(/\r+$/, "").split("\r");
  return parts.at(-1) ?? "";
}
