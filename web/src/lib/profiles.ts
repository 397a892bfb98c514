import type { ProfileDefaults } from "../api/types";

/** The owner of what every product can use. */
export const FLEET = "_fleet";

export function ownerWords(owner: string): string {
  return owner === FLEET ? "every product" : owner;
}

/** What a profile sets in a job that leaves it out. */
export function setsWords({ capabilities, engines, models, budget, verify }: Partial<ProfileDefaults>): string {
  const keys = [
    (capabilities ?? []).length > 0 && "capabilities",
    (engines ?? []).length > 0 && "engines",
    Object.keys(models ?? {}).length > 0 && "models",
    (budget?.usd ?? budget?.wallMs ?? budget?.tokens) != null && "budget",
    (verify ?? []).length > 0 && "verify",
  ];
  return keys.filter((key) => key !== false).join(", ");
}

/** The profiles that a job of a product can name: the product's own hides the fleet's of the same name. */
export function usableBy<T extends { name: string; productId: string }>(
  profiles: readonly T[],
  product: string | undefined,
): T[] {
  const usable = profiles.filter(({ productId }) => productId === FLEET || productId === product);
  return usable.filter((one) => one.productId !== FLEET || !usable.some((o) => o.name === one.name && o !== one));
}
