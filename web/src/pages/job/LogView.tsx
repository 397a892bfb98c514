import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { sessionHeaders } from "../../api/session";
import type { JobDetail } from "../../api/types";
import { type LogBuffer, logUrl } from "../../live/log";
import { useKeys } from "../../shell/keys";
import { Ansi } from "../../ui/Ansi";
import { Button } from "../../ui/Button";
import { Glyph } from "../../ui/Glyph";
import { Icon } from "../../ui/Icon";
import { plainLine } from "../../ui/terminalText";
import { sayError } from "../../ui/toasts";

const LINE = 18;

/** Virtual lines. Follows the end until the user scrolls up. */
export function LogView({ buffer, job, epoch }: { buffer: LogBuffer; job: JobDetail; epoch: number | undefined }) {
  const box = useRef<HTMLDivElement>(null);
  const find = useRef<HTMLInputElement>(null);
  const [isFollowing, setFollowing] = useState(true);
  const [wrap, setWrap] = useState(false);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const virtual = useVirtualizer({
    count: buffer.count,
    getScrollElement: () => box.current,
    estimateSize: () => LINE,
    overscan: 30,
  });
  const version = buffer.version;
  const matches = useMemo(() => findLines(buffer, text, version), [buffer, text, version]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: every new version may have moved the end
  useEffect(() => {
    if (isFollowing && buffer.count > 0) virtual.scrollToIndex(buffer.count - 1, { align: "end" });
  }, [version, isFollowing]);

  const jump = (by: number) => {
    if (matches.length === 0) return;
    const next = (at + by + matches.length) % matches.length;
    setAt(next);
    setFollowing(false);
    virtual.scrollToIndex(matches[next] ?? 0, { align: "center" });
  };
  useKeys([
    { keys: "/", label: "Search the log", group: "Log", run: () => find.current?.focus() },
    { keys: "n", label: "Next match", group: "Log", run: () => jump(1) },
    { keys: "N", label: "Previous match", group: "Log", run: () => jump(-1) },
    { keys: "G", label: "Jump to the end", group: "Log", run: () => setFollowing(true) },
  ]);
  const matched = matches[at];

  return (
    <>
      <div className="log-bar is-bar">
        <input
          ref={find}
          className="input find"
          type="search"
          aria-label="Search the log"
          placeholder="Search"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={(event) => event.key === "Enter" && jump(event.shiftKey ? -1 : 1)}
        />
        {text !== "" && (
          <span className="small dim nums" role="status">
            {matches.length === 0 ? "no match" : `${at + 1} of ${matches.length}`}
          </span>
        )}
        <span className="push" />
        {buffer.isComplete ? (
          <span className="small dim">complete</span>
        ) : (
          <Button small aria-pressed={isFollowing} onClick={() => setFollowing(!isFollowing)}>
            {isFollowing && <Glyph name="dot" />}
            {isFollowing ? "Following" : "Follow"}
          </Button>
        )}
        {buffer.isComplete && (
          <Button small look="quiet" onClick={() => virtual.scrollToIndex(buffer.count - 1, { align: "end" })}>
            Jump to end
          </Button>
        )}
        <Button
          small
          look="quiet"
          aria-pressed={wrap}
          onClick={() => {
            setWrap(!wrap);
            virtual.measure();
          }}
        >
          {wrap ? "Do not wrap" : "Wrap"}
        </Button>
        <Button
          small
          look="quiet"
          icon
          aria-label="Download the log"
          title="Download the log"
          onClick={() => void download(job, epoch)}
        >
          <Icon name="download" />
        </Button>
      </div>
      {buffer.dropped > 0 && (
        <p className="small dim log-note">{buffer.dropped} earlier lines are not shown; the download has them.</p>
      )}
      <div
        ref={box}
        className="log is-scroll"
        role="log"
        aria-label="Log"
        tabIndex={0}
        onWheel={(event) => event.deltaY < 0 && setFollowing(false)}
        onKeyDown={(event) => /^(Arrow|Page|Home)/.test(event.key) && setFollowing(false)}
        onTouchMove={() => setFollowing(false)}
      >
        <div className="log-canvas" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => (
            <div
              key={item.key}
              ref={wrap ? virtual.measureElement : undefined}
              data-index={item.index}
              className={`log-line ${wrap ? "is-wrap" : ""} ${item.index === matched && text !== "" ? "is-target" : ""}`}
              style={{ transform: `translateY(${item.start}px)` }}
            >
              <span className="ln">{buffer.start > 0 ? "" : item.index + 1 + buffer.dropped}</span>
              <span className="tx">
                <Ansi text={buffer.line(item.index)} />
              </span>
            </div>
          ))}
        </div>
      </div>
    </>
  );
}

function findLines(buffer: LogBuffer, text: string, _version: number): number[] {
  if (text === "") return [];
  const wanted = text.toLowerCase();
  const found: number[] = [];
  for (let index = 0; index < buffer.count; index += 1) {
    if (plainLine(buffer.line(index)).toLowerCase().includes(wanted)) found.push(index);
  }
  return found;
}

/** Links cannot carry the session header: read the log, then save it. */
async function download(job: JobDetail, epoch: number | undefined) {
  try {
    const response = await fetch(logUrl(job.id, epoch, { offset: 0 }, false), { headers: sessionHeaders() });
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = `${job.id}.log`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  } catch (error) {
    sayError("Not downloaded", error);
  }
}
