import { cleanup, render } from "@testing-library/react";
import { afterEach, describe, expect, it } from "vitest";
import { Ansi } from "./Ansi";
import { plainLine } from "./terminalText";
import { Words } from "./Words";

afterEach(cleanup);

describe("text from outside", () => {
  it("turns colours into classes", () => {
    const { container } = render(<Ansi text={"\u001b[31mred\u001b[0m plain \u001b[1mbold"} />);
    expect(container.querySelector(".a-red")?.textContent).toBe("red");
    expect(container.querySelector(".a-b")?.textContent).toBe("bold");
    expect(container.textContent).toBe("red plain bold");
  });
  it("reads colours of a stored log, where ESC is a replacement character", () => {
    const { container } = render(<Ansi text={"\ufffd[31mred\ufffd[0m and \ufffd alone"} />);
    expect(container.querySelector(".a-red")?.textContent).toBe("red");
    expect(container.textContent).toBe("red and \ufffd alone");
  });
  it("shows markup as text", () => {
    const { container } = render(<Ansi text={"<img src=x onerror=alert(1)> \u001b[32m<script>1</script>"} />);
    expect(container.querySelector("img, script")).toBeNull();
    expect(container.textContent).toBe("<img src=x onerror=alert(1)> <script>1</script>");
    const words = render(<Words text={"`<b>` and <i>x</i>"} />);
    expect(words.container.querySelector("b, i")).toBeNull();
    expect(words.container.querySelector("code")?.textContent).toBe("<b>");
  });
  it("removes other escape sequences, controls and bidi overrides", () => {
    const { container } = render(<Ansi text={"\u001b]0;title\u0007a\u001b[2Kb\u0007c\u202ed 10%\r100%"} />);
    expect(container.textContent).toBe("100%");
    const second = render(<Ansi text={"\u001b]0;title\u0007a\u001b[2Kb\u0007c\u202ed"} />);
    expect(second.container.textContent).toBe("abcd");
  });
  it("shows the last state of a stored progress line", () => {
    const shown = (text: string) => render(<Ansi text={text} />).container.textContent;
    expect(shown("progress 1\ufffdprogress 2\ufffdprogress 3")).toBe("progress 3");
    expect(shown("\u280b Building\ufffd\u2819 Building\ufffd")).toBe("\u2819 Building");
    expect(shown("Resolving\ufffd\ufffd[KDone")).toBe("Done");
    expect(shown("Resolving\ufffd[2K\ufffdDone")).toBe("Done");
    expect(shown("one line\ufffd")).toBe("one line");
    expect(shown("\ufffd\ufffd invalid utf8")).toBe("\ufffd\ufffd invalid utf8");
  });
  it("drops titles, links and zero-width characters of a stored log", () => {
    const shown = (text: string) => render(<Ansi text={text} />).container.textContent;
    expect(shown("a \ufffd]0;OSC title\ufffd b")).toBe("a  b");
    expect(shown("\ufffd]8;;http://x\ufffd\\link\ufffd]8;;\ufffd\\ end")).toBe("link end");
    expect(shown("pass\u200bword\u2060 \ufeffx")).toBe("password x");
  });
  it("finds words of a log without its sequences", () => {
    expect(plainLine("\ufffd[31mred\ufffd[0m\ufffd]0;t\ufffd line")).toBe("red line");
  });
});
