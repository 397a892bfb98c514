import type { NeedItem } from "../../api/types";
import { capital, money } from "../../lib/format";
import { Age } from "../../ui/Age";
import { Button } from "../../ui/Button";
import { Glyph } from "../../ui/Glyph";
import { Words } from "../../ui/Words";
import { lookOf } from "./look";
import { NeedButton, NeedLink } from "./NeedActions";
import { NeedBody } from "./NeedBody";

type Props = { item: NeedItem; isCursor: boolean; isOpen: boolean; toggle: () => void };

export function NeedRow({ item, isCursor, isOpen, toggle }: Props) {
  const look = lookOf(item.kind);
  const [first] = item.actions;
  return (
    <li className={`ask ${isOpen ? "is-open" : ""} ${isCursor ? "is-cursor" : ""}`}>
      <div className="ask-row">
        <span className={`st kind ${look.className}`}>
          <Glyph name={look.glyph} />
          {look.word}
        </span>
        <button type="button" className="q" aria-expanded={isOpen} onClick={toggle}>
          <span className={`t2 ${isOpen ? "strong" : ""}`} title={item.text}>
            <Words text={capital(item.text)} />
          </span>
          <span className="sub t1">{item.title}</span>
        </button>
        <span className="dim t1 prod">{item.productId}</span>
        <span className="num cost">{item.costUsd == null ? "" : money(item.costUsd)}</span>
        <span className="num age">
          <Age at={item.at} />
        </span>
        <span className="act">
          {isOpen ? (
            <Button small look="quiet" onClick={toggle}>
              Close
            </Button>
          ) : first === "answer" ? (
            <Button small look="primary" onClick={toggle}>
              Answer
            </Button>
          ) : first === undefined ? (
            <NeedLink item={item} look="plain" />
          ) : (
            <NeedButton item={item} action={first} />
          )}
        </span>
      </div>
      {isOpen && <NeedBody item={item} />}
    </li>
  );
}
