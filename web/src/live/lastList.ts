// The list that the user came from: `[` and `]` on a job move along it.

let ids: readonly string[] = [];

export function rememberList(list: readonly string[]) {
  ids = list;
}

export function neighbour(id: string, by: 1 | -1): string | undefined {
  const at = ids.indexOf(id);
  return at === -1 ? undefined : ids[at + by];
}
