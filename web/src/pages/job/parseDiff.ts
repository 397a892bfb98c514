export type DiffRow = { kind: "hunk" | "add" | "del" | "same"; old?: number; new?: number; text: string };
export type DiffFile = { name: string; added: number; removed: number; rows: DiffRow[] };

/** Reads a unified diff of git. Lines that it does not know are shown as they are. */
export function parseDiff(text: string): DiffFile[] {
  const files: DiffFile[] = [];
  let file: DiffFile | null = null;
  let oldLine = 0;
  let newLine = 0;
  let isInHunk = false;
  for (const line of text.split("\n")) {
    if (line.startsWith("diff --git ")) {
      const match = / b\/(.*)$/.exec(line);
      file = { name: match?.[1] ?? line.slice("diff --git ".length), added: 0, removed: 0, rows: [] };
      files.push(file);
      isInHunk = false;
      continue;
    }
    if (file === null) continue;
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (hunk !== null) {
      oldLine = Number(hunk[1]);
      newLine = Number(hunk[2]);
      isInHunk = true;
      file.rows.push({ kind: "hunk", text: line });
    } else if (!isInHunk) {
      if (/^(new file|deleted file|rename|similarity|Binary|old mode|new mode)/.test(line))
        file.rows.push({ kind: "hunk", text: line });
    } else if (line.startsWith("+")) {
      file.added += 1;
      file.rows.push({ kind: "add", new: newLine++, text: line.slice(1) });
    } else if (line.startsWith("-")) {
      file.removed += 1;
      file.rows.push({ kind: "del", old: oldLine++, text: line.slice(1) });
    } else if (line.startsWith("\\")) file.rows.push({ kind: "hunk", text: line });
    else if (line !== "") file.rows.push({ kind: "same", old: oldLine++, new: newLine++, text: line.slice(1) });
  }
  return files;
}
