import type { Insert } from "./Inserts";

export const TEMPLATE = `---
title: 
repo: 
verify: 
---

Describe what should change and how you will know that it is right.
`;

/** Sets `repo` and `engine`, adds to the list `capabilities`. Leaves everything else as the user wrote it. */
export function insertKey(text: string, { key, value }: Insert): string {
  const lines = text.split("\n");
  if (lines[0]?.trim() !== "---") return `---\n${key}: ${format(key, [value])}\n---\n\n${text}`;
  const end = lines.findIndex((line, index) => index > 0 && line.trim() === "---");
  const close = end === -1 ? lines.length : end;
  const at = lines.findIndex((line, index) => index > 0 && index < close && line.startsWith(`${key}:`));
  if (at === -1) lines.splice(close, 0, `${key}: ${format(key, [value])}`);
  else if (key !== "capabilities") lines[at] = `${key}: ${value}`;
  else {
    const known = (lines[at] ?? "")
      .slice(key.length + 1)
      .replace(/[[\]]/g, "")
      .split(",")
      .map((one) => one.trim().replace(/^["']|["']$/g, ""))
      .filter(Boolean);
    if (!known.includes(value)) known.push(value);
    lines[at] = `${key}: ${format(key, known)}`;
  }
  return lines.join("\n");
}

function format(key: Insert["key"], values: string[]): string {
  return key === "capabilities" ? `[${values.map((value) => `"${value}"`).join(", ")}]` : (values[0] ?? "");
}
