import type { Ineligible } from "../api/types";
import { clockShort } from "./format";

/** Why a factory cannot take a job, in words. */
export function unfitWords(why: Ineligible): string {
  switch (why.code) {
    case "product_paused":
      return `product ${why.product} is paused`;
    case "waits_for_money":
      return `product ${why.product} waits for money`;
    case "pinned_elsewhere":
      return `the job is pinned to ${why.pin}`;
    case "lacks":
      return `lacks \`${why.capability}\``;
    case "runs_no_engine":
      return `runs none of the engines ${why.engines.join(", ")}`;
    case "no_repo":
      return `repository \`${why.repo}\` is not configured there`;
    case "repo_differs":
      return `its repository \`${why.repo}\` has another remote`;
    case "remote_unavailable":
      return `cannot reach the remote of \`${why.repo}\`: ${why.message}`;
    case "out_of_scope":
      return `its token does not allow product ${why.product}`;
    case "away":
      return why.presence === "stale" ? "stale: no recent heartbeat" : why.presence;
    case "warming":
      return "not connected since the coordinator restarted";
    case "draining":
      return "draining";
    case "disk_low":
      return "its disk is nearly full";
    case "unresponsive":
      return `unresponsive: ${why.problem}`;
    case "usage_window":
      return why.window.until == null
        ? `${why.window.engine}: usage limit reached`
        : `${why.window.engine}: window opens ${clockShort(why.window.until)}`;
    case "engine_paused":
      return `${why.engine} is paused until ${clockShort(why.until)}: ${why.problem}`;
    case "engine_unusable":
      return `${why.engine} cannot be used: ${why.problem}`;
    case "full":
      return why.seats === 1 ? "its only seat is in use" : `all ${why.seats} seats are in use`;
    case "engine_busy":
      return `all seats of ${why.engines.join(", ")} are in use`;
    case "repo_busy":
      return `all its seats for \`${why.repo}\` are in use`;
    case "fleet_repo_busy":
      return `the fleet's seats for \`${why.repo}\` are in use`;
    default:
      return why satisfies never;
  }
}
