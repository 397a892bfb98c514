import type { Product } from "../api/types";

type ScoreWeights = NonNullable<Product["scoreWeights"]>;

/** The terms of the placement score, as commands name them. */
const TERMS = {
  fit: "capabilityFit",
  affinity: "affinity",
  idle: "idleness",
  cost: "costFit",
  health: "health",
  wait: "starvationPenalty",
} as const satisfies Record<string, keyof ScoreWeights>;

type Term = keyof typeof TERMS;

/** `affinity=2, health=0.5` */
export function weightsText(weights: ScoreWeights | undefined): string {
  const given = (Object.keys(TERMS) as Term[]).filter((term) => weights?.[TERMS[term]] != null);
  return given.map((term) => `${term}=${weights?.[TERMS[term]]}`).join(", ");
}

export function parseWeights(text: string): ScoreWeights {
  const weights: ScoreWeights = {};
  for (const [name, value] of pairs(text)) {
    if (!(name in TERMS)) throw new Error(`${name} is no term: use ${Object.keys(TERMS).join(", ")}`);
    const weight = Number(value);
    if (value === "" || !(weight >= 0 && weight <= 100)) throw new Error(`the weight of ${name} is 0 to 100`);
    weights[TERMS[name as Term]] = weight;
  }
  return weights;
}

/** `notes=2, app=1` */
export function seatsText(seats: Record<string, number> | undefined): string {
  return Object.entries(seats ?? {})
    .map(([repo, limit]) => `${repo}=${limit}`)
    .join(", ");
}

export function parseSeats(text: string): Record<string, number> {
  const seats: Record<string, number> = {};
  for (const [repo, value] of pairs(text)) {
    const limit = Number(value);
    if (value === "" || !Number.isInteger(limit) || limit < 0) throw new Error(`the seats of ${repo} are a number`);
    seats[repo] = limit;
  }
  return seats;
}

function pairs(text: string): [string, string][] {
  const parts = text.split(/[\s,]+/).filter(Boolean);
  return parts.map((part) => {
    const at = part.lastIndexOf("=");
    if (at <= 0) throw new Error(`write ${part} as name=number`);
    return [part.slice(0, at), part.slice(at + 1)];
  });
}
