import type { Finding } from "../../api/types";
import type { Insert } from "./Inserts";

export const TEMPLATE = `---
# repo: the repository to change
# verify: the command that must pass, for example npm test
---

# What should change, in one line

Say what should be different when it is done, and how the agent can check it.
`;

export type Template = { name: string; hint: string; text: string };

export const TEMPLATES: readonly Template[] = [
  { name: "A change", hint: "a repository and a command that must pass", text: TEMPLATE },
  {
    name: "A bug to fix",
    hint: "high priority, up to three attempts",
    text: `---
# repo: the repository to change
# verify: the command that must pass, for example npm test
priority: high
retry: { max: 3, backoff: 30s }
tags: [bug]
---

# What goes wrong, in one line

## What happens

## What should happen

## How to reproduce it
`,
  },
  {
    name: "A question about the code",
    hint: "changes no file",
    text: `---
# repo: the repository to read
allowEmpty: true
tags: [audit]
---

# What to find out, in one line

Write the answer as your final message.
`,
  },
];

export const PLAN_TEMPLATE = `---
# repo: the repository to change
# verify: the command that must pass after each job, for example npm test
---

# What all of it is for, in one line

## The first job

Say what should be different when it is done.

## Another job

A job below one heading runs beside the others.

## The last job

\`\`\`job
after: [The first job, Another job]
\`\`\`

It starts when these two have shipped.
`;

export const PLAN_TEMPLATES: readonly Template[] = [
  { name: "A plan", hint: "three jobs, the last one after the others", text: PLAN_TEMPLATE },
  {
    name: "A reviewed change",
    hint: "each job waits for an approval",
    text: `---
# repo: the repository to change
# verify: the command that must pass after each job, for example npm test
review: {}
---

# What all of it is for, in one line

## Prepare it

### One part

### Another part

## Change the behaviour

\`\`\`job
after: Prepare it
priority: high
\`\`\`

## Document it

\`\`\`job
after: Change the behaviour
\`\`\`
`,
  },
];

/** Sets `repo` and `engine`, adds to the list `capabilities`. Leaves everything else as the user wrote it. */
export function insertKey(text: string, { key, value }: Insert): string {
  const lines = text.split("\n");
  if (lines[0]?.trim() !== "---") return `---\n${key}: ${format(key, [value])}\n---\n\n${text}`;
  const end = lines.findIndex((line, index) => index > 0 && line.trim() === "---");
  const close = end === -1 ? lines.length : end;
  const within = (index: number) => index > 0 && index < close;
  const at = lines.findIndex((line, index) => within(index) && line.startsWith(`${key}:`));
  const hint = lines.findIndex((line, index) => within(index) && line.startsWith(`# ${key}:`));
  if (at === -1) lines.splice(hint === -1 ? close : hint, hint === -1 ? 0 : 1, `${key}: ${format(key, [value])}`);
  else if (key !== "capabilities") lines[at] = `${key}: ${value}`;
  else {
    const known = valuesOf(lines[at] ?? "", key);
    if (!known.includes(value)) known.push(value);
    lines[at] = `${key}: ${format(key, known)}`;
  }
  return lines.join("\n");
}

function valuesOf(line: string, key: string): string[] {
  return line
    .slice(key.length + 1)
    .replace(/[[\]]/g, "")
    .split(",")
    .map((one) => one.trim().replace(/^["']|["']$/g, ""))
    .filter(Boolean);
}

/** Whether the front matter already names a value. */
export function hasKey(text: string, { key, value }: Insert): boolean {
  const front = /^---\n([\s\S]*?)\n---/.exec(text)?.[1] ?? "";
  const line = front.split("\n").find((one) => one.startsWith(`${key}:`));
  return line !== undefined && valuesOf(line, key).includes(value);
}

function format(key: Insert["key"], values: string[]): string {
  return key === "capabilities" ? `[${values.map((value) => `"${value}"`).join(", ")}]` : (values[0] ?? "");
}

/** The line with the coordinator's suggestion applied: "unknown key; did you mean `priority`?". */
export function repaired(line: string, finding: Finding): string | null {
  const better = /did you mean `([^`]+)`/.exec(finding.message)?.[1];
  const wrong = finding.key?.split(".").at(-1);
  if (better === undefined || wrong === undefined || !line.includes(wrong)) return null;
  return line.replace(wrong, better.split(".").at(-1) ?? better);
}
