//! What tools answered before, for when one of them does not answer in time.

use std::collections::{BTreeMap, BTreeSet};

use domain::Capability;

/// How often in a row a tool may be too late and still is what it was. A machine that is busy for longer than so many looks
/// had better not offer it, and a daemon that hangs has to be noticed at last.
const LATE_MAX: u32 = 2;

/// What came of asking for one tool.
pub(super) struct Probed {
    pub(super) tool: String,
    pub(super) answer: Answer,
}

/// Whether a tool works.
pub(super) enum Answer {
    /// It stands for these tokens.
    Yes(Vec<Capability>),
    /// It does not, or is not there.
    No,
    /// It is there, and did not say in time.
    Late,
}

/// The last answers of tools.
#[derive(Debug, Default)]
pub(crate) struct ToolMemory(BTreeMap<String, Remembered>);

#[derive(Debug)]
struct Remembered {
    tokens: Vec<Capability>,
    late: u32,
}

impl ToolMemory {
    /// The tokens of all tools that were asked, those that were too late by their last answer.
    pub(super) fn settle(&mut self, probed: Vec<Probed>) -> BTreeSet<Capability> {
        let mut before = std::mem::take(&mut self.0);
        for Probed { tool, answer } in probed {
            let known = match answer {
                Answer::Yes(tokens) => Some(Remembered { tokens, late: 0 }),
                Answer::No => None,
                Answer::Late => {
                    tracing::warn!("Tool `{tool}` did not answer in time");
                    let known = before.remove(&tool).filter(|known| known.late < LATE_MAX);
                    known.map(|known| Remembered { late: known.late + 1, ..known })
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

    fn settled(memory: &mut ToolMemory, answer: Answer) -> Vec<String> {
        let probed = vec![Probed { tool: "docker".to_owned(), answer }];
        memory.settle(probed).iter().map(ToString::to_string).collect()
    }

    fn yes() -> Answer {
        Answer::Yes(vec!["has:docker".parse().unwrap()])
    }

    #[test]
    fn a_tool_that_is_too_late_is_what_it_was_for_a_while_and_one_that_says_no_is_not() {
        let mut memory = ToolMemory::default();
        let nothing: [&str; 0] = [];

        assert_eq!(settled(&mut memory, Answer::Late), nothing, "it never answered");
        assert_eq!(settled(&mut memory, yes()), ["has:docker"]);
        assert_eq!(settled(&mut memory, Answer::Late), ["has:docker"]);
        assert_eq!(settled(&mut memory, yes()), ["has:docker"]);
        assert_eq!(settled(&mut memory, Answer::Late), ["has:docker"]);
        assert_eq!(settled(&mut memory, Answer::Late), ["has:docker"]);
        assert_eq!(settled(&mut memory, Answer::Late), nothing);
        assert_eq!(settled(&mut memory, yes()), ["has:docker"]);
        assert_eq!(settled(&mut memory, Answer::No), nothing);
        assert_eq!(settled(&mut memory, Answer::Late), nothing);
    }
}
