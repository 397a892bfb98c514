import { Fragment } from "react";
import { clock, exact } from "../lib/format";

const ISO_TIME = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;

/** Text from outside, as text. Only `backticks` become code elements, and exact times become clock times. */
export function Words({ text }: { text: string }) {
  const parts = text.split("`");
  if (parts.length % 2 === 0) return <Times text={text} />;
  return parts.map((part, index) => (
    <Fragment key={index}>{index % 2 === 1 ? <code>{part}</code> : <Times text={part} />}</Fragment>
  ));
}

function Times({ text }: { text: string }) {
  if (!ISO_TIME.test(text)) return text;
  return text.split(ISO_TIME).map((part, index) =>
    index % 2 === 0 ? (
      part
    ) : (
      <time key={index} dateTime={part} title={exact(part)}>
        {clock(part)} UTC
      </time>
    ),
  );
}
