import { Fragment } from "react";

/** Text from outside, as text. Only `backticks` become code elements. */
export function Words({ text }: { text: string }) {
  const parts = text.split("`");
  if (parts.length % 2 === 0) return text;
  return parts.map((part, index) => <Fragment key={index}>{index % 2 === 1 ? <code>{part}</code> : part}</Fragment>);
}
