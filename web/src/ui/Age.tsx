import { clock, duration, exact } from "../lib/format";
import { useIsCurrent, useNow } from "../live";

/** How long ago, moving. While the data is old it turns into the clock time, which stays true. */
export function Age({
  at,
  suffix = "",
  until,
  className,
}: {
  at: string;
  suffix?: string;
  until?: string | null;
  className?: string;
}) {
  const isCurrent = useIsCurrent();
  const ended = until ?? null;
  return (
    <time className={className} dateTime={at} title={exact(at)}>
      {ended !== null ? (
        duration(Date.parse(ended) - Date.parse(at))
      ) : isCurrent ? (
        <Ticking at={at} suffix={suffix} />
      ) : (
        clock(at)
      )}
    </time>
  );
}

function Ticking({ at, suffix }: { at: string; suffix: string }) {
  const start = Date.parse(at);
  const now = useNow(Date.now() - start < 120_000 ? 1_000 : 20_000);
  return `${duration(now - start)}${suffix}`;
}

/** `14:32:08`, with the date in the tooltip. */
export function Clock({ at }: { at: string }) {
  return (
    <time dateTime={at} title={exact(at)}>
      {clock(at)}
    </time>
  );
}
