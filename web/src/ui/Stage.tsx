import type { StageName } from "../api/types";
import { STAGE } from "../lib/stages";
import { Glyph } from "./Glyph";

export function Stage({ stage, badge = false }: { stage: StageName; badge?: boolean }) {
  const look = STAGE[stage];
  return (
    <span className={`st ${look.className} ${badge ? "badge" : ""}`} title={look.hint}>
      <Glyph name={look.glyph} />
      {look.word}
    </span>
  );
}

/** The glyph alone, with the word for screen readers. */
export function StageGlyph({ stage }: { stage: StageName }) {
  const look = STAGE[stage];
  return (
    <span className={look.className} title={look.word}>
      <Glyph name={look.glyph} />
      <span className="sr">{look.word}: </span>
    </span>
  );
}
