import type { FactoryView } from "../api/types";

const MARKS_MAX = 24;

/** One mark per seat: filled building, half assigned, outlined free, dashed not available. A bar above 24. */
export function Seats({
  used,
  reserved = 0,
  total,
  gone = false,
}: {
  used: number;
  reserved?: number;
  total: number;
  gone?: boolean;
}) {
  const label = gone ? `${total} seats, not available` : `${used + reserved} of ${total} seats in use`;
  if (total > MARKS_MAX) {
    return (
      <svg className="meter" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={label}>
        <rect className="bg" width="100" height="8" />
        <rect className="fg" width={((used + reserved) / total) * 100} height="8" />
      </svg>
    );
  }
  return (
    <span className="seats" role="img" aria-label={label}>
      {Array.from({ length: total }, (_, index) => (
        <i key={index} className={gone ? "gone" : index < used ? "on" : index < used + reserved ? "res" : undefined} />
      ))}
    </span>
  );
}

export function seatsOf(factory: FactoryView): { used: number; reserved: number } {
  const reserved = factory.seats.filter((seat) => seat.dispatchedOnly).length;
  return { used: factory.seats.length - reserved, reserved };
}
