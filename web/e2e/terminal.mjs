// A program in a terminal of tmux, as a picture: its screen with colours becomes HTML, which the browser draws.

import { spawnSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

const BASIC = ["#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4"];
const BRIGHT = ["#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc"];
const PAPER = "#0d1117";
const INK = "#c9d1d9";
const ESCAPE = "\u001b";

/** The colour with this number of the palette of 256. */
function indexed(n) {
  if (n < 8) return BASIC[n];
  if (n < 16) return BRIGHT[n - 8];
  if (n >= 232) return rgb(...Array(3).fill(8 + (n - 232) * 10));
  const level = (part) => (part === 0 ? 0 : 55 + part * 40);
  return rgb(level(Math.floor((n - 16) / 36)), level(Math.floor((n - 16) / 6) % 6), level((n - 16) % 6));
}

function rgb(...parts) {
  return `rgb(${parts.join(",")})`;
}

const PLAIN = { ink: null, paper: null, bold: false, dim: false, underline: false, reversed: false };

/** The style after a sequence of SGR parameters. */
function styled(style, parameters) {
  const next = { ...style };
  const rest = parameters.length === 0 ? [0] : [...parameters];
  while (rest.length > 0) {
    const code = rest.shift();
    const colour = () => (rest.shift() === 5 ? indexed(rest.shift()) : rgb(...rest.splice(0, 3)));
    if (code === 0) Object.assign(next, PLAIN);
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 4) next.underline = true;
    else if (code === 7) next.reversed = true;
    else if (code === 22) Object.assign(next, { bold: false, dim: false });
    else if (code === 24) next.underline = false;
    else if (code === 27) next.reversed = false;
    else if (code === 38) next.ink = colour();
    else if (code === 39) next.ink = null;
    else if (code === 48) next.paper = colour();
    else if (code === 49) next.paper = null;
    else if (code >= 30 && code <= 37) next.ink = BASIC[code - 30];
    else if (code >= 40 && code <= 47) next.paper = BASIC[code - 40];
    else if (code >= 90 && code <= 97) next.ink = BRIGHT[code - 90];
    else if (code >= 100 && code <= 107) next.paper = BRIGHT[code - 100];
  }
  return next;
}

function css({ ink, paper, bold, dim, underline, reversed }) {
  const [front, back] = reversed ? [paper ?? PAPER, ink ?? INK] : [ink ?? INK, paper];
  const rules = [`color:${front}`];
  if (back !== null) rules.push(`background:${back}`);
  if (bold) rules.push("font-weight:600");
  if (dim && !reversed) rules.push("opacity:.65");
  if (underline) rules.push("text-decoration:underline");
  return rules.join(";");
}

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** A page with the text of a screen, whose colours are SGR sequences. */
export function terminalPage(screen) {
  let style = PLAIN;
  const [first, ...rest] = screen.split(ESCAPE);
  const span = (text) => (text === "" ? "" : `<span style="${css(style)}">${escaped(text)}</span>`);
  const spans = [span(first)];
  for (const part of rest) {
    const [sequence, parameters] = /^\[([0-9;]*)m/.exec(part) ?? [""];
    if (sequence !== "") style = styled(style, parameters.split(";").filter(Boolean).map(Number));
    spans.push(span(part.slice(sequence.length)));
  }
  return `<!doctype html><meta charset="utf-8"><style>
    body { margin: 0; background: ${PAPER}; }
    pre { display: inline-block; margin: 0; padding: 14px 16px; font: 13px/17px "JetBrains Mono", "DejaVu Sans Mono", monospace; }
  </style><pre>${spans.join("")}</pre>`;
}

/** A terminal with one program, on a server of tmux of its own. */
export class Terminal {
  constructor(socket, { columns, rows, cwd, command, env }) {
    this.socket = socket;
    const size = ["-x", String(columns), "-y", String(rows)];
    this.tmux(["-f", "/dev/null", "new-session", "-d", ...size, "-c", cwd, command], env);
  }

  tmux(args, env = {}) {
    const clean = { ...process.env, TERM: "xterm-256color", COLORTERM: "truecolor", LANG: "C.UTF-8", ...env };
    delete clean.TMUX;
    const done = spawnSync("tmux", ["-S", this.socket, ...args], { encoding: "utf8", env: clean });
    if (done.status !== 0) throw new Error(`tmux ${args[0]}: ${done.error ?? done.stderr}`);
    return done.stdout;
  }

  press(...keys) {
    this.tmux(["send-keys", ...keys]);
  }

  /** The screen with its colours, once it shows a text. */
  async screen(text, ms = 20_000) {
    const end = Date.now() + ms;
    for (;;) {
      if (this.tmux(["capture-pane", "-p"]).includes(text)) return this.tmux(["capture-pane", "-e", "-p"]);
      if (Date.now() > end)
        throw new Error(`the terminal does not show ${text}:\n${this.tmux(["capture-pane", "-p"])}`);
      await sleep(100);
    }
  }

  close() {
    try {
      this.tmux(["kill-server"]);
    } catch {
      // The program has ended by itself.
    }
  }
}
