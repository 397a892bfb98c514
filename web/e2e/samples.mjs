// Jobs in every state: running, waiting, asking, failed, dead-lettered, ready to ship, shipped.

const WORK = (file, steps, cost) => [
  ...Array.from(
    { length: steps },
    (_, index) =>
      `echo "edit src/${file}.ts, step ${index + 1} of ${steps}"; echo "line ${index + 1}" >> ${file}.ts; sleep 0.2`,
  ),
  `echo 'cost: $${cost}'`,
  "echo 'tokens in: 1934000'",
  "echo 'tokens out: 38200'",
  "echo 'turns: 41'",
];

const VITEST = [
  "printf '\\033[2m> uploads-api@4.12.0 test\\033[0m\\n\\033[2m> vitest --run\\033[0m\\n'",
  "printf ' \\033[32m✓\\033[0m src/uploads/chunk.test.ts \\033[2m(38 tests) 412ms\\033[0m\\n'",
  "printf ' \\033[32m✓\\033[0m src/uploads/ledger.test.ts \\033[2m(51 tests) 1.9s\\033[0m\\n'",
  "printf ' \\033[31m×\\033[0m src/uploads/resume.e2e.test.ts \\033[2m(9 tests | \\033[31m1 failed\\033[0m\\033[2m) 5.8s\\033[0m\\n'",
  "printf '   \\033[31m× resumes after the server loses its last chunk\\033[0m\\n'",
  "printf '     \\033[31mAssertionError:\\033[0m expected offset 5242880 to equal 4194304\\n'",
];

const forever = (words) => [
  "while :; do",
  ...words.map((word) => `echo 'cost: $0.31'; echo '${word}'; date >> progress.txt; sleep 4`),
  "done",
];

const REPO_OF = { tracker: "tracker-api", notes: "notes-server", lysnrai: "uploads-api" };
export const REPOS = Object.values(REPO_OF);

/** Fills a fleet. Waits until the short jobs have ended. */
export async function furnish(fleet) {
  for (const [id, settings] of Object.entries({
    tracker: { repos: ["tracker-api"], autoShip: true },
    notes: { repos: ["notes-server"] },
    lysnrai: { repos: ["uploads-api"] },
  })) {
    await fleet.api("PUT", `/products/${id}`, settings);
  }
  const of = (product) => ({ repo: REPO_OF[product], product });
  const shipped = [];
  for (const [title, product, cost] of [
    ["Stop the recorder when the call ends", "tracker", "1.24"],
    ["Fix the off-by-one in the sprint burndown", "tracker", "0.38"],
    ["Add CSV export to time reports", "tracker", "0.91"],
    ["Paginate the notebook list", "tracker", "0.29"],
  ]) {
    shipped.push(
      await fleet.submit(title, WORK(title.split(" ")[1].toLowerCase(), 3, cost), { ...of(product), tags: ["ux"] }),
    );
  }
  await fleet.untilStage(shipped[3], "shipped", "testing", "failed");
  const testing = await fleet.submit("Debounce autosave while typing", [...WORK("autosave", 2, "0.48"), ...VITEST], {
    ...of("notes"),
    verify: ["grep -c line autosave.ts", "echo 604 passed"],
    tags: ["editor", "q4"],
  });
  const failing = await fleet.submit(
    "Port the sync engine to Rust",
    [...WORK("sync", 2, "3.10"), "echo 'error[E0308]: mismatched types in sync/engine.rs:118' >&2", "exit 3"],
    {
      ...of("notes"),
      retry: { max: 1 },
    },
  );
  const dead = await fleet.submit("Upgrade Prisma to 7", [...WORK("prisma", 2, "1.57"), ...VITEST], {
    ...of("tracker"),
    verify: "echo 'pnpm test: 1 failed, 603 passed' && exit 1",
    retry: { max: 2, backoff: "1s" },
  });
  await fleet.submit("Rebuild the audio fixture set", ["echo broken; exit 1"], {
    ...of("lysnrai"),
    retry: { max: 2, backoff: "1s" },
  });
  const asks = await fleet.submit(
    "Move recordings to resumable uploads",
    [
      "echo 'reading routes.ts'; echo partial > uploads.ts; echo 'cost: $1.12'",
      "if printf '%s' \"$GIGA_PROMPT\" | grep -qi 'k[e]ep it'; then echo done >> uploads.ts; exit 0; fi",
      "printf 'Keep `/v1/upload` for clients older than 3.2, or return 410?\\n\\nClients older than 3.2 still send whole files to `/v1/upload`: 4 %% of requests in the last 7 days. The new resumable endpoint does not accept that format.\\n\\nI can keep the old route as a thin adapter (about 60 lines), or return `410 Gone`. Which one?\\n' > .aq_question.md",
    ],
    { ...of("lysnrai"), priority: "high", tags: ["uploads"] },
  );
  await fleet.submit(
    "Import notebooks from Evernote ENEX files",
    [
      "echo partial > enex.ts; echo 'cost: $0.88'",
      "echo 'Convert ink notes to images, or drop them?' > .aq_question.md",
    ],
    of("notes"),
  );
  await fleet.submit("Fine-tune the wake-word model on the March recordings", ["true"], {
    ...of("lysnrai"),
    capabilities: ["gpu:a100"],
    priority: "high",
  });
  await fleet.untilStage(asks, "blocked");
  await fleet.submit("Delete orphaned chunks nightly", ["true"], { ...of("lysnrai"), deps: [asks] });
  const walls = await fleet.submit("Send reminders through the new scheduler", WORK("reminders", 3, "0.20"), {
    ...of("lysnrai"),
    deps: [asks, testing],
  });
  await fleet.submit("Switch the iOS app to resumable uploads", ["true"], { ...of("lysnrai"), deps: [walls] });
  await fleet.untilStage(failing, "failed", "dead_letter");
  await fleet.untilStage(dead, "dead_letter");
  for (const [title, product, words, more] of [
    [
      "Resume interrupted uploads from the last acknowledged chunk",
      "lysnrai",
      ["running `pnpm test`", "editing src/uploads/ledger.ts", "reading src/uploads/ledger.test.ts"],
      { priority: "high", budget: { usd: 2.5, wall: "2h" }, tags: ["uploads", "q4"] },
    ],
    ["Split the billing worker out of tracker-api", "tracker", ["fixing type errors", "running `cargo check`"], {}],
    [
      "Replace Moment with Temporal in the recurrence engine",
      "tracker",
      ["running `cargo test`", "editing recurrence.ts"],
      {},
    ],
    ["Index note attachments for full-text search", "notes", ["writing migration 0042"], {}],
  ]) {
    await fleet.submit(title, [...WORK(title.split(" ")[0].toLowerCase(), 3, "0.05"), ...VITEST, ...forever(words)], {
      ...of(product),
      ...more,
    });
  }
  await fleet.submit("Render the PDF export on the server", forever(["writing the PDF renderer"]), {
    ...of("notes"),
    capabilities: ["os:linux"],
  });
  await fleet.submit("Add keyboard reordering to the board", forever(["editing Board.tsx"]), {
    ...of("tracker"),
    priority: "low",
  });
  await fleet.submit(
    "Translate onboarding to German and Japanese",
    forever(["translating 42 of 118 texts"]),
    of("notes"),
  );
  await fleet.submit("Cache speaker embeddings between calls", forever(["running `make test`"]), of("lysnrai"));
}
