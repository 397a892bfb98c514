import { Menu } from "@base-ui/react/menu";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { jobsPanelQuery } from "../../api/queries";
import { STAGES } from "../../api/types";
import { useProduct } from "../../shell/ProductSwitcher";
import { buttonClass } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { StageGlyph } from "../../ui/Stage";
import type { Template } from "./frontMatter";

const JOBS = 6;

type Props = { templates: readonly Template[]; hasJobs: boolean; choose: (text: string) => void };

/** Starts the text over: from a template, or as a copy of a recent job. */
export function Start({ templates, hasJobs, choose }: Props) {
  const [isOpen, setOpen] = useState(false);
  const navigate = useNavigate();
  const { data } = useQuery({ ...jobsPanelQuery(STAGES, useProduct(), JOBS), enabled: isOpen && hasJobs });
  return (
    <Menu.Root onOpenChange={setOpen}>
      <Menu.Trigger className={buttonClass("plain", true)}>
        Start from <Icon name="down" />
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner align="end" sideOffset={4}>
          <Menu.Popup className="pop is-wide">
            <Menu.Group>
              <Menu.GroupLabel className="pop-label">Template</Menu.GroupLabel>
              {templates.map((template) => (
                <Menu.Item key={template.name} className="pop-item" onClick={() => choose(template.text)}>
                  {template.name}
                  <span className="right small">{template.hint}</span>
                </Menu.Item>
              ))}
            </Menu.Group>
            {hasJobs && (data?.items.length ?? 0) > 0 && (
              <Menu.Group>
                <Menu.Separator className="pop-sep" />
                <Menu.GroupLabel className="pop-label">Copy of a recent job</Menu.GroupLabel>
                {data?.items.map((job) => (
                  <Menu.Item
                    key={job.id}
                    className="pop-item"
                    onClick={() => void navigate({ to: "/new", search: { from: job.id } })}
                  >
                    <StageGlyph stage={job.stage} />
                    <span className="t1">{job.title}</span>
                  </Menu.Item>
                ))}
              </Menu.Group>
            )}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
