import { expect, test } from "vitest";
import { setsWords, usableBy } from "./profiles";

test("a product's own profile hides the fleet's of the same name", () => {
  const profile = (name: string, productId: string) => ({ name, productId });
  const profiles = [profile("ux", "notes"), profile("ux", "_fleet"), profile("docs", "_fleet"), profile("x", "shop")];

  expect(usableBy(profiles, "notes")).toEqual([profile("ux", "notes"), profile("docs", "_fleet")]);
  expect(usableBy(profiles, undefined)).toEqual([profile("ux", "_fleet"), profile("docs", "_fleet")]);
});

test("a profile that sets nothing says nothing", () => {
  expect(setsWords({ budget: {} })).toBe("");
  expect(setsWords({ engines: ["claude"], budget: { tokens: 5 } })).toBe("engines, budget");
});
