//! The children of a job, its dependencies, and the jobs that wait for it, as trees.

use std::collections::{BTreeMap, BTreeSet};

use domain::JobId;
use protocol::{Dag, DagNode};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{draw_lines, span};
use crate::look::{Tint, stage_tint};
use crate::model::{Detail, Model};
use crate::text::one_line;

/// Deeper branches are not drawn.
const DEPTH_MAX: usize = 20;

pub(super) fn draw(model: &Model, detail: &Detail, area: Rect, screen: &mut Buffer) {
    let lines = match &detail.dag {
        Some(dag) => lines(model, dag, detail.id),
        None => vec![Line::from(span(" reading …", model.look.style(Tint::Faint)))],
    };
    draw_lines(&lines, detail.scroll, area, screen);
}

fn lines(model: &Model, dag: &Dag, root: JobId) -> Vec<Line<'static>> {
    let look = model.look;
    let nodes: BTreeMap<JobId, &DagNode> = dag.nodes.iter().map(|node| (node.id, node)).collect();
    let up: BTreeMap<JobId, Vec<JobId>> = dag.nodes.iter().map(|node| (node.id, node.deps.clone())).collect();
    let mut down: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
    for node in &dag.nodes {
        for dep in &node.deps {
            down.entry(*dep).or_default().push(node.id);
        }
    }
    let mut below: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
    for node in &dag.nodes {
        if let Some(parent) = node.parent_id {
            below.entry(parent).or_default().push(node.id);
        }
    }
    let mut lines = family(model, &nodes, &below, root);
    for (title, empty, edges) in
        [("waits for", "It waits for no other job.", &up), ("waited for by", "No other job waits for it.", &down)]
    {
        lines.push(Line::from(span(format!(" {title}"), look.style(Tint::Faint))));
        let mut tree = Tree { model, nodes: &nodes, edges, seen: BTreeSet::from([root]), lines: &mut lines };
        if edges.get(&root).is_none_or(Vec::is_empty) {
            tree.lines.push(Line::from(span(format!("   {empty}"), look.style(Tint::Faint))));
        }
        tree.branch(root, "   ", 0);
        lines.push(Line::default());
    }
    if dag.truncated {
        let text = format!(" Only the nearest {} jobs are shown.", dag.limit);
        lines.push(Line::from(span(text, look.style(Tint::Warn))));
    }
    lines
}

/// The parent and the children; nothing for a job without either.
fn family(
    model: &Model,
    nodes: &BTreeMap<JobId, &DagNode>,
    below: &BTreeMap<JobId, Vec<JobId>>,
    root: JobId,
) -> Vec<Line<'static>> {
    let look = model.look;
    let mut lines = Vec::new();
    if let Some(parent) = nodes.get(&root).and_then(|node| node.parent_id) {
        lines.push(Line::from(span(" child of", look.style(Tint::Faint))));
        Tree { model, nodes, edges: below, seen: BTreeSet::new(), lines: &mut lines }.node(parent, "   ", true, false);
        lines.push(Line::default());
    }
    if below.contains_key(&root) {
        lines.push(Line::from(span(" children", look.style(Tint::Faint))));
        Tree { model, nodes, edges: below, seen: BTreeSet::from([root]), lines: &mut lines }.branch(root, "   ", 0);
        lines.push(Line::default());
    }
    lines
}

struct Tree<'t> {
    model: &'t Model,
    nodes: &'t BTreeMap<JobId, &'t DagNode>,
    edges: &'t BTreeMap<JobId, Vec<JobId>>,
    seen: BTreeSet<JobId>,
    lines: &'t mut Vec<Line<'static>>,
}

impl Tree<'_> {
    fn branch(&mut self, of: JobId, indent: &str, depth: usize) {
        let next = self.edges.get(&of).cloned().unwrap_or_default();
        let last = next.len().saturating_sub(1);
        for (at, id) in next.into_iter().enumerate() {
            let is_last = at == last;
            let is_again = !self.seen.insert(id);
            self.node(id, indent, is_last, is_again);
            if !is_again && depth < DEPTH_MAX {
                let deeper = format!("{indent}{}", if is_last { "   " } else { "│  " });
                self.branch(id, &deeper, depth + 1);
            }
        }
    }

    fn node(&mut self, id: JobId, indent: &str, is_last: bool, is_again: bool) {
        let look = self.model.look;
        let corner = if is_last { "└─ " } else { "├─ " };
        let mut spans = vec![span(format!("{indent}{corner}"), look.style(Tint::Faint))];
        match self.nodes.get(&id) {
            Some(node) => {
                let stage = look.style(stage_tint(node.stage));
                spans.push(span(format!("{} ", look.stage_glyph(node.stage)), stage));
                spans.push(span(format!("{}  ", one_line(&node.title)), look.style(Tint::Plain)));
                spans.push(span(node.stage.as_str(), stage));
                if let Some(cost) = node.spent.cost_usd {
                    spans.push(span(format!("  {}", domain::dollars(cost)), look.style(Tint::Faint)));
                }
            }
            None => spans.push(span(id.short().to_string(), look.style(Tint::Faint))),
        }
        if is_again {
            spans.push(span("  (see above)", look.style(Tint::Faint)));
        }
        self.lines.push(Line::from(spans));
    }
}
