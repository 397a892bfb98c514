import type { ReactNode } from "react";

const ring = <circle cx="6" cy="6" r="4.25" fill="none" stroke="currentColor" strokeWidth="1.5" />;

// Drawn, not font characters: fonts give these signs different sizes.
const GLYPHS = {
  queued: ring,
  blocked: <path fill="currentColor" d="M2.750 1.750h2.250v8.500H2.750zM7 1.750h2.250v8.500H7z" />,
  assigned: (
    <>
      {ring}
      <path fill="currentColor" d="M6 6V1.750A4.250 4.250 0 0 1 10.250 6z" />
    </>
  ),
  building: <path fill="currentColor" d="M2.500 1.500 10.750 6 2.500 10.500z" />,
  review: <path fill="currentColor" d="M6 .9 11.100 6 6 11.100.9 6z" />,
  testing: (
    <>
      {ring}
      <path fill="currentColor" d="M6 1.750a4.250 4.250 0 0 1 0 8.500z" />
    </>
  ),
  shipped: <path fill="none" stroke="currentColor" strokeWidth="1.9" d="m1.800 6.400 2.900 2.900 5.500-6.500" />,
  failed: <path fill="none" stroke="currentColor" strokeWidth="1.9" d="m2.300 2.300 7.400 7.400m0-7.400-7.400 7.400" />,
  dead: (
    <>
      <circle cx="6" cy="6" r="4.6" fill="none" stroke="currentColor" strokeWidth="1.5" />
      <path stroke="currentColor" strokeWidth="1.5" d="m2.900 9.100 6.200-6.200" />
    </>
  ),
  warn: (
    <path
      fill="currentColor"
      d="M5 1h2l-.35 6.200h-1.300zM6 8.400a1.250 1.250 0 1 1 0 2.500 1.250 1.250 0 0 1 0-2.500z"
    />
  ),
  ask: (
    <>
      <path
        fill="none"
        stroke="currentColor"
        strokeWidth="1.7"
        d="M3.400 4.200C3.400 2.600 4.500 1.700 6 1.700s2.600.9 2.600 2.300C8.600 5.700 6 5.700 6 7.400"
      />
      <circle cx="6" cy="10" r="1.1" fill="currentColor" />
    </>
  ),
  checkpoint: <path fill="currentColor" d="M3 1.500h6v9L6 8.200 3 10.500z" />,
  dot: <circle cx="6" cy="6" r="4" fill="currentColor" />,
  ring: <circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" strokeWidth="1.75" strokeDasharray="2.4 1.800" />,
} satisfies Record<string, ReactNode>;

export type GlyphName = keyof typeof GLYPHS;

export function Glyph({ name, className = "" }: { name: GlyphName; className?: string }) {
  return (
    <svg className={`g ${className}`} viewBox="0 0 12 12" aria-hidden="true">
      {GLYPHS[name]}
    </svg>
  );
}
