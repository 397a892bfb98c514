// 16 px line icons of the mock-ups, one path each.
const PATHS = {
  fleet: "M2.500 2.700h11v4.300h-11zM2.500 9h11v4.300h-11zM5 4.850h.01M5 11.150h.01M8 4.850h3.500M8 11.150h3.500",
  needs: "M2 9.500h3.400l1 1.800h3.200l1-1.800H14M2 9.500 4 3h8l2 6.500v3.700H2z",
  jobs: "M6 4h8M6 8h8M6 12h8M2.500 4h.6M2.500 8h.6M2.500 12h.6",
  budgets: "M2.200 13.300V2.700M2.200 13.300h11.600M4.800 10.500l3-3.200 2.100 1.600L13.500 4",
  dispatch:
    "M2 8h4.500M6.500 8C9 8 8.500 3.500 11 3.500h2.500M6.500 8C9 8 8.500 12.500 11 12.500h2.500M11.800 1.700l1.900 1.800-1.900 1.800M11.800 10.700l1.900 1.800-1.900 1.800",
  admin:
    "M2 4.500h5.100M10.900 4.500H14M2 11.500h3.100M8.900 11.500H14M10.900 4.500a1.900 1.900 0 1 1-3.800 0 1.900 1.900 0 0 1 3.800 0M8.900 11.500a1.900 1.900 0 1 1-3.800 0 1.900 1.900 0 0 1 3.800 0",
  search: "M11.300 7A4.300 4.300 0 1 1 2.700 7a4.300 4.300 0 0 1 8.600 0M10.300 10.300l3.200 3.200",
  plus: "M8 3v10M3 8h10",
  down: "m4.500 6.500 3.500 3.500 3.500-3.500",
  copy: "M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3",
  check: "m3 8.500 3.300 3.300L13 4.500",
  close: "m4 4 8 8m0-8-8 8",
  download: "M8 2.500v7.500M4.800 7 8 10.200 11.200 7M2.700 13.300h10.600",
  filter: "M2.500 4h11M4.500 8h7M6.500 12h3",
  more: "M3.500 8h.01M8 8h.01M12.500 8h.01",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg
      className="i"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth={name === "more" ? 2.2 : 1.4}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Mark() {
  return (
    <svg className="i" viewBox="0 0 16 16" aria-hidden="true">
      <path fill="currentColor" d="M1.500 14V6.500L6 9.300V6.500l4.500 2.800V2h3.500v12z" />
    </svg>
  );
}
