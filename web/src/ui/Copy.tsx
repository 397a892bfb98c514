import { useState } from "react";
import { Button } from "./Button";
import { Icon } from "./Icon";

export function Copy({ text, label }: { text: string; label: string }) {
  const [isCopied, setCopied] = useState(false);
  return (
    <Button
      look="quiet"
      small
      icon
      aria-label={isCopied ? "Copied" : label}
      title={isCopied ? "Copied" : label}
      onClick={async () => {
        await navigator.clipboard.writeText(text);
        setCopied(true);
        setTimeout(() => setCopied(false), 1_500);
      }}
    >
      <Icon name={isCopied ? "check" : "copy"} />
    </Button>
  );
}

/** A command to paste into a terminal. */
export function Command({ text }: { text: string }) {
  return (
    <div className="cmd">
      <code>{text}</code>
      <Copy text={text} label="Copy command" />
    </div>
  );
}
