import { describe, expect, it } from "vitest";
import { parseSeats, parseWeights, seatsText, weightsText } from "./productFields";

describe("the fields of a product", () => {
  it("are read as they are written", () => {
    for (const text of ["", "affinity=2, wait=0.5", "fit=0"]) expect(weightsText(parseWeights(text))).toBe(text);
    for (const text of ["", "notes=2, acme/app=1"]) expect(seatsText(parseSeats(text))).toBe(text);
  });

  it("name what is wrong", () => {
    for (const text of ["affinity", "speed=1", "fit=-1", "fit=", "fit=x"]) expect(() => parseWeights(text)).toThrow();
    for (const text of ["notes", "notes=1.5", "notes=", "=1"]) expect(() => parseSeats(text)).toThrow();
  });
});
