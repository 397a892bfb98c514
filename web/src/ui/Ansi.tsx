import Anser from "anser";
import { memo } from "react";
import { withColours, withoutUnsafe } from "./terminalText";

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

/** A line of a terminal as elements: colours by class, never HTML. */
export const Ansi = memo(function Ansi({ text }: { text: string }) {
  const cleaned = withColours(text);
  if (!cleaned.includes("\u001b")) return withoutUnsafe(cleaned);
  return Anser.ansiToJson(cleaned, { use_classes: true, remove_empty: true }).map((part, index) => {
    const classes = [
      part.fg === null ? "" : (CLASSES[part.fg] ?? ""),
      part.decorations.includes("bold") ? "a-b" : "",
      part.decorations.includes("dim") ? "a-dim" : "",
    ].filter(Boolean);
    const content = withoutUnsafe(part.content);
    return classes.length === 0 ? (
      content
    ) : (
      <span key={index} className={classes.join(" ")}>
        {content}
      </span>
    );
  });
});
