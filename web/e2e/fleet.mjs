// A real coordinator and real factories for the end-to-end tests, the screenshots and development.

import { spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** The agent of the tests: runs the lines of its prompt that begin with `$ `, and nothing else. */
const AGENT = `prompt=$(cat)
GIGA_PROMPT=$prompt
export GIGA_PROMPT
script=$(printf '%s\\n' "$prompt" | sed -n 's/^\\$ //p')
set -e
eval "$script"
`;

/** The program under test: `GIGA_BIN`, or the debug build of this tree. */
export function program() {
  return resolve(process.env.GIGA_BIN ?? new URL("../../target/debug/giga", import.meta.url).pathname);
}

export async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((done) => server.once("listening", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

export class Fleet {
  /** @type {Map<string, import("node:child_process").ChildProcess>} */
  processes = new Map();

  /** @param {{ coordinator?: string, factory?: string, seats?: Record<string, number>, engines?: string, repos?: string[] }} [options] lines for giga.toml */
  constructor(options = {}) {
    this.root = mkdtempSync(join(tmpdir(), "giga-web-"));
    this.options = options;
    this.seats = options.seats ?? { east: 2, west: 2 };
    this.repos = options.repos ?? ["house"];
  }

  path(...parts) {
    return join(this.root, ...parts);
  }

  async start() {
    this.port = await freePort();
    this.origin = `http://127.0.0.1:${this.port}`;
    for (const name of this.repos) this.#makeRepository(name);
    writeFileSync(this.path("agent.sh"), AGENT);
    writeFileSync(this.path("giga.toml"), this.#config());
    await this.startCoordinator();
    this.token = readFileSync(this.path("data", "admin.token"), "utf8").trim();
    for (const name of Object.keys(this.seats)) await this.enrol(name);
    await this.until("connected factories", async () => {
      const { items } = await this.api("GET", "/factories");
      return items.filter((factory) => factory.connected).length === Object.keys(this.seats).length;
    });
    return this;
  }

  #config() {
    const { coordinator = "", factory = "", engines = "" } = this.options;
    return `data = '${this.path("data")}'
[coordinator]
listen = '127.0.0.1:${this.port}'
lease_ttl = '6s'
renew_every = '1s'
stale_after = '5s'
accept_within = '3s'
disk_free_min_mib = 0
retry = { attempts_max = 2, backoff = '1s' }
${coordinator}
[factory]
poll_every = '1s'
checkpoint_every = '2s'
disk_floor_mib = 0
confine = 'off'
${factory}
${this.repos.map((name) => `[factory.repos.${name}]\nurl = '${this.path(`${name}.git`)}'`).join("\n")}
[factory.engines.script]
argv = ['sh', '${this.path("agent.sh")}']
reads = { cost_usd = { regex = 'cost: \\$([0-9.]+)' }, tokens_in = { regex = 'tokens in: ([0-9]+)' }, tokens_out = { regex = 'tokens out: ([0-9]+)' }, turns = { regex = 'turns: ([0-9]+)' } }
${engines}
[log]
level = 'warn'
`;
  }

  #makeRepository(name) {
    const bare = this.path(`${name}.git`);
    const seed = this.path("seed");
    const git = (cwd, ...args) => {
      const identity = ["-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false"];
      const done = spawnSync("git", [...identity, ...args], { cwd, encoding: "utf8" });
      if (done.status !== 0) throw new Error(`git ${args.join(" ")}: ${done.stderr}`);
    };
    git(this.root, "init", "--quiet", "--bare", "--initial-branch=main", bare);
    git(this.root, "init", "--quiet", "--initial-branch=main", seed);
    writeFileSync(join(seed, "README.md"), "# A house\n\nBuilt by agents, one job at a time.\n");
    git(seed, "add", "README.md");
    git(seed, "commit", "--quiet", "--message", "An empty lot");
    git(seed, "push", "--quiet", bare, "main");
    rmSync(seed, { recursive: true });
  }

  #spawn(name, args, env = {}) {
    const log = openSync(this.path(`${name}.log`), "a");
    const clean = Object.fromEntries(Object.entries(process.env).filter(([key]) => !/^(GIGA_|AQ_)/.test(key)));
    const child = spawn(program(), ["--config", this.path("giga.toml"), ...args], {
      cwd: this.root,
      stdio: ["ignore", log, log],
      env: { ...clean, ...env },
    });
    closeSync(log);
    this.processes.set(name, child);
    return child;
  }

  async startCoordinator() {
    rmSync(this.path("data", "endpoint"), { force: true });
    const env =
      process.env.GIGA_E2E_WEB_DIR === undefined ? {} : { GIGA_WEB_DIR: resolve(process.env.GIGA_E2E_WEB_DIR) };
    this.#spawn("coordinator", ["serve"], env);
    await this.until("a coordinator", async () => {
      const answer = await fetch(`${this.origin}/healthz`).catch(() => null);
      return answer?.ok === true;
    });
  }

  async enrol(name) {
    const { secret } = await this.api("POST", "/tokens", {
      name: `join-${name}`,
      grant: { role: "join", factory: name },
    });
    mkdirSync(this.path("factories"), { recursive: true });
    this.startFactory(name, ["--join", secret]);
  }

  startFactory(name, more = []) {
    const args = ["factory", "run", "--api", this.origin, "--name", name, "--state", this.path("factories", name)];
    this.#spawn(name, [...args, "--seats", String(this.seats[name] ?? 2), ...more]);
  }

  /** Starts the factories that pools need. */
  startScaler() {
    this.#spawn("scaler", ["scaler", "--process"]);
  }

  /** Ends one process, as a crash would or in order. */
  async kill(name, signal = "SIGKILL") {
    const child = this.processes.get(name);
    if (child === undefined) return;
    this.processes.delete(name);
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((done) => child.once("exit", done));
    child.kill(signal);
    await ended;
  }

  async stop() {
    for (const name of [...this.processes.keys()].reverse()) await this.kill(name, "SIGTERM");
    if (process.env.GIGA_E2E_KEEP === undefined) rmSync(this.root, { recursive: true, force: true });
  }

  log(name) {
    return existsSync(this.path(`${name}.log`)) ? readFileSync(this.path(`${name}.log`), "utf8") : "";
  }

  async until(what, isSo, ms = 60_000) {
    const end = Date.now() + ms;
    let last;
    while (Date.now() < end) {
      try {
        if (await isSo()) return;
      } catch (error) {
        last = error;
      }
      await sleep(100);
    }
    throw new Error(
      `waited too long for ${what}${last === undefined ? "" : `: ${last.message}`}\n${this.log("coordinator")}`,
    );
  }

  async api(method, path, body, headers = {}) {
    const response = await fetch(`${this.origin}/api/fleet${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  /** Submits a job whose agent runs these shell lines; the id. */
  async submit(title, lines, front = {}, prose = "Do what the lines below say.") {
    const more = Object.entries(front).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
    const matter = [`title: ${JSON.stringify(title)}`, ...more].join("\n");
    const bodyMd = `---\n${matter}\n---\n\n${prose}\n\n${lines.map((line) => `$ ${line}`).join("\n")}\n`;
    const { job } = await this.api("POST", "/jobs", { bodyMd });
    return job.id;
  }

  async untilStage(id, ...stages) {
    await this.until(`${id} in ${stages.join(" or ")}`, async () =>
      stages.includes((await this.api("GET", `/jobs/${id}`)).stage),
    );
  }
}
