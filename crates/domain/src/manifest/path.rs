//! The current path of the decoder.

use crate::names::escape_for_terminal;

/// A path such as `budget.usd` or `capabilities[2]`, extended and truncated while the decoder walks the tree.
#[derive(Default)]
pub(super) struct Path(String);

/// Length of the path before a step, to undo the step.
#[derive(Clone, Copy)]
pub(super) struct PathMark(usize);

impl Path {
    pub(super) fn enter_key(&mut self, key: &str) -> PathMark {
        let mark = PathMark(self.0.len());
        if !self.0.is_empty() {
            self.0.push('.');
        }
        self.0.push_str(&escape_for_terminal(key));
        mark
    }

    pub(super) fn enter_item(&mut self, index: usize) -> PathMark {
        let mark = PathMark(self.0.len());
        self.0.push_str(&format!("[{index}]"));
        mark
    }

    pub(super) fn leave(&mut self, mark: PathMark) {
        self.0.truncate(mark.0);
    }

    /// The path as shown in a finding; `None` at the root.
    pub(super) fn key(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.clone())
    }
}
