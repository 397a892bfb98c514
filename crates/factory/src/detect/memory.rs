//! The last answers of tools, for when one of them does not answer in time.

use std::collections::{BTreeMap, BTreeSet};

use domain::Capability;

/// How often in a row a tool may time out and keep its state. A machine that is busy for longer should not offer it,
/// and a hanging daemon has to be noticed eventually.
const LATE_MAX: u32 = 2;

/// The result of detecting one tool.
pub(super) struct ProbeResult {
    pub(super) tool: String,
    pub(super) answer: ToolState,
}

/// Whether a tool works.
pub(super) enum ToolState {
    /// It has these capabilities.
    Yes(Vec<Capability>),
    /// It does not work, or does not exist.
    No,
    /// It exists, and timed out.
    Late,
}

/// The last answers of tools.
#[derive(Debug, Default)]
pub(crate) struct ProbeCache(BTreeMap<String, CachedProbe>);

#[derive(Debug)]
struct CachedProbe {
    tokens: Vec<Capability>,
    late: u32,
}

impl ProbeCache {
    /// The capabilities of all detected tools; those that timed out keep their last answer.
    pub(super) fn settle(&mut self, probed: Vec<ProbeResult>) -> BTreeSet<Capability> {
        let mut before = std::mem::take(&mut self.0);
        for ProbeResult { tool, answer } in probed {
            let known = match answer {
                ToolState::Yes(tokens) => Some(CachedProbe { tokens, late: 0 }),
                ToolState::No => None,
                ToolState::Late => {
                    tracing::warn!("Tool `{tool}` did not answer in time");
                    let known = before.remove(&tool).filter(|known| known.late < LATE_MAX);
                    known.map(|known| CachedProbe { late: known.late + 1, ..known })
                }
            };
            self.0.extend(known.map(|known| (tool, known)));
        }
        self.0.values().flat_map(|known| known.tokens.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(memory: &mut ProbeCache, answer: ToolState) -> Vec<String> {
        let probed = vec![ProbeResult { tool: "docker".to_owned(), answer }];
        memory.settle(probed).iter().map(ToString::to_string).collect()
    }

    fn yes() -> ToolState {
        ToolState::Yes(vec!["has:docker".parse().unwrap()])
    }

    // [F1]
    #[test]
    fn a_tool_that_is_too_late_is_what_it_was_for_a_while_and_one_that_says_no_is_not() {
        let mut memory = ProbeCache::default();
        let nothing: [&str; 0] = [];

        assert_eq!(settled(&mut memory, ToolState::Late), nothing, "it never answered");
        assert_eq!(settled(&mut memory, yes()), ["has:docker"]);
        assert_eq!(settled(&mut memory, ToolState::Late), ["has:docker"]);
        assert_eq!(settled(&mut memory, yes()), ["has:docker"]);
        assert_eq!(settled(&mut memory, ToolState::Late), ["has:docker"]);
        assert_eq!(settled(&mut memory, ToolState::Late), ["has:docker"]);
        assert_eq!(settled(&mut memory, ToolState::Late), nothing);
        assert_eq!(settled(&mut memory, yes()), ["has:docker"]);
        assert_eq!(settled(&mut memory, ToolState::No), nothing);
        assert_eq!(settled(&mut memory, ToolState::Late), nothing);
    }
}
