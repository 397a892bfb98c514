import { Toast } from "@base-ui/react/toast";
import { asApiError } from "../api/problem";

export const toasts = Toast.createToastManager();

export function say(title: string, description?: string) {
  toasts.add({ title, description, type: "ok", timeout: 5_000 });
}

/** `what` names the action that failed: "Not shipped". */
export function sayError(what: string, error: unknown) {
  const { sentence, remedy, code } = asApiError(error);
  toasts.add({
    title: `${what}: ${sentence}`,
    description: [remedy, `code ${code}`].filter(Boolean).join(" "),
    type: "error",
    timeout: 15_000,
  });
}
