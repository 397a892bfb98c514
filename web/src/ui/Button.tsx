import type { ButtonHTMLAttributes, ReactNode } from "react";
import { usePhase } from "../live";
import { isCurrent, type Phase } from "../live/machine";

type Look = "plain" | "primary" | "danger" | "danger-fill" | "quiet";

export type ButtonProps = Omit<ButtonHTMLAttributes<HTMLButtonElement>, "className"> & {
  look?: Look;
  small?: boolean;
  icon?: boolean;
  wide?: boolean;
  children: ReactNode;
};

const LOOKS: Record<Look, string> = {
  plain: "",
  primary: "is-primary",
  danger: "is-danger",
  "danger-fill": "is-danger is-primary",
  quiet: "is-quiet",
};

export function buttonClass(look: Look = "plain", small = false, icon = false, wide = false): string {
  return ["btn", LOOKS[look], small && "is-small", icon && "is-icon", wide && "is-wide"].filter(Boolean).join(" ");
}

export function Button({ look, small, icon, wide, children, ...rest }: ButtonProps) {
  return (
    <button type="button" className={buttonClass(look, small, icon, wide)} {...rest}>
      {children}
    </button>
  );
}

export function writeBlock(phase: Phase): string | null {
  if (isCurrent(phase)) return null;
  return phase === "connecting"
    ? "Not while connecting"
    : phase === "down"
      ? "Not while the coordinator is unreachable"
      : "Sign in first";
}

/** A button that changes something: off, with the reason, while the coordinator does not answer. */
export function WriteButton({ onClick, title, disabled, busy, ...rest }: ButtonProps & { busy?: boolean }) {
  const why = writeBlock(usePhase());
  const isOff = why !== null || disabled === true || busy === true;
  return (
    <Button
      {...rest}
      title={why ?? title}
      aria-disabled={isOff}
      aria-busy={busy}
      onClick={(event) => {
        if (isOff) event.preventDefault();
        else onClick?.(event);
      }}
    />
  );
}
