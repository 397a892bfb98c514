import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { markdown } from "@codemirror/lang-markdown";
import { yamlFrontmatter } from "@codemirror/lang-yaml";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { type Range, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, keymap, lineNumbers, WidgetType } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Finding } from "../../api/types";
import { repaired } from "./frontMatter";

export type ManifestEditor = {
  setText: (text: string) => void;
  setFindings: (findings: readonly Finding[]) => void;
  goTo: (line: number) => void;
  destroy: () => void;
};

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--surface-0)", font: "var(--t-mono)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "inherit", lineHeight: "20px", overflow: "auto" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--text)" },
  ".cm-line": { padding: "0 12px" },
  ".cm-gutters": {
    backgroundColor: "var(--surface-1)",
    color: "var(--text-off)",
    borderRight: "1px solid var(--line)",
  },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 8px", minWidth: "36px" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground, ::selection": {
    backgroundColor: "var(--accent-soft)",
  },
  ".line-error": { backgroundColor: "var(--bad-soft)" },
  ".line-warning": { backgroundColor: "var(--warn-soft)" },
  ".finding": {
    display: "flex",
    alignItems: "baseline",
    gap: "8px",
    padding: "1px 12px 4px",
    font: "var(--t-small)",
    whiteSpace: "normal",
  },
  ".finding.is-error": { color: "var(--bad)", backgroundColor: "var(--bad-soft)" },
  ".finding.is-warning": { color: "var(--warn)", backgroundColor: "var(--warn-soft)" },
  ".finding button": {
    flex: "none",
    font: "var(--t-small)",
    color: "var(--text)",
    background: "var(--surface-0)",
    cursor: "pointer",
    border: "1px solid var(--line-strong)",
    borderRadius: "4px",
    padding: "0 8px",
    minHeight: "22px",
  },
  ".finding button:focus-visible": { outline: "2px solid var(--accent)" },
});

const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
    {
      tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace, tags.meta, tags.comment],
      color: "var(--text-2)",
    },
    { tag: tags.heading, fontWeight: "600" },
    { tag: tags.strong, fontWeight: "600" },
    { tag: tags.emphasis, fontStyle: "italic" },
    { tag: [tags.monospace, tags.link, tags.url], color: "var(--building)" },
  ]),
);

class FindingWidget extends WidgetType {
  constructor(
    readonly finding: Finding,
    readonly replace: ((view: EditorView) => void) | null,
  ) {
    super();
  }
  override eq(other: FindingWidget) {
    return other.finding.message === this.finding.message && other.finding.line === this.finding.line;
  }
  override toDOM(view: EditorView) {
    const box = document.createElement("div");
    box.className = `finding is-${this.finding.severity}`;
    const words = document.createElement("span");
    words.textContent = `${this.finding.severity}: ${this.finding.message}`;
    box.append(words);
    const { replace } = this;
    if (replace !== null) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "Replace";
      button.addEventListener("click", () => replace(view));
      box.append(button);
    }
    return box;
  }
  override ignoreEvent() {
    return true;
  }
}

const setFindings = StateEffect.define<readonly Finding[]>();
const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(current, transaction) {
    let next = current.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(setFindings)) continue;
      const ranges: Range<Decoration>[] = [];
      for (const finding of effect.value) {
        if (finding.line < 1 || finding.line > transaction.state.doc.lines) continue;
        const line = transaction.state.doc.line(finding.line);
        ranges.push(Decoration.line({ class: `line-${finding.severity}` }).range(line.from));
        const better = repaired(line.text, finding);
        const replace =
          better === null
            ? null
            : (view: EditorView) => {
                const now = view.state.doc.line(Math.min(finding.line, view.state.doc.lines));
                if (now.text === line.text) view.dispatch({ changes: { from: now.from, to: now.to, insert: better } });
                view.focus();
              };
        const widget = new FindingWidget(finding, replace);
        ranges.push(Decoration.widget({ widget, block: true, side: 1 }).range(line.to));
      }
      next = Decoration.set(ranges, true);
    }
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** Chromium keeps the style of replaced text as an inline style, which the policy blocks: replace it here instead. */
const plainTyping = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const isPlain = event.inputType === "insertText" && event.data !== null && !event.isComposing;
    if (!isPlain || view.composing || view.state.selection.ranges.every((range) => range.empty)) return false;
    event.preventDefault();
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

type Handlers = { onChange: (text: string) => void; onSubmit: () => void };

export function createEditor(root: ShadowRoot, text: string, { onChange, onSubmit }: Handlers): ManifestEditor {
  const submit = {
    key: "Mod-Enter",
    run: () => {
      onSubmit();
      return true;
    },
  };
  const view = new EditorView({
    root,
    parent: root,
    doc: text,
    extensions: [
      keymap.of([submit, ...defaultKeymap, ...historyKeymap]),
      history(),
      lineNumbers(),
      EditorView.lineWrapping,
      yamlFrontmatter({ content: markdown() }),
      colours,
      theme,
      marks,
      plainTyping,
      EditorView.contentAttributes.of({ "aria-label": "Manifest", spellcheck: "false", autocapitalize: "off" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) onChange(update.state.doc.toString());
      }),
    ],
  });
  return {
    setText(next) {
      const now = view.state.doc.toString();
      if (next !== now) view.dispatch({ changes: changed(now, next) });
    },
    setFindings: (findings) => view.dispatch({ effects: setFindings.of(findings) }),
    goTo(number) {
      const line = view.state.doc.line(Math.min(Math.max(1, number), view.state.doc.lines));
      view.dispatch({ selection: { anchor: line.from, head: line.to }, scrollIntoView: true });
      view.focus();
    },
    destroy: () => view.destroy(),
  };
}

/** The part that differs, so that the cursor and the undo history survive an insertion from the side. */
function changed(now: string, next: string) {
  let from = 0;
  while (from < now.length && from < next.length && now[from] === next[from]) from += 1;
  let tail = 0;
  while (tail < now.length - from && tail < next.length - from && now.at(-1 - tail) === next.at(-1 - tail)) tail += 1;
  return { from, to: now.length - tail, insert: next.slice(from, next.length - tail) };
}
