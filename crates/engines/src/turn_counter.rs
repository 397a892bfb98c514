//! Counts the turns of a conversation from an agent's output.

/// Counts a model's answers where the engine does not report their number: text or a tool call after tool results is
/// another answer. Parallel tool calls that run one after the other count as one each.
#[derive(Debug, Default)]
pub(super) struct TurnCounter {
    begun: u32,
    is_open: bool,
}

impl TurnCounter {
    /// The model writes text, or calls a tool.
    pub(super) fn speaks(&mut self) {
        if !self.is_open {
            self.begun = self.begun.saturating_add(1);
            self.is_open = true;
        }
    }

    /// A tool returned its result: the model's next answer follows.
    pub(super) fn hears(&mut self) {
        self.is_open = false;
    }

    /// How many there were, if any.
    pub(super) fn count(&self) -> Option<u32> {
        (self.begun > 0).then_some(self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [F2]
    #[test]
    fn a_round_lasts_until_the_results_of_its_tools_came() {
        let mut rounds = TurnCounter::default();
        assert_eq!(rounds.count(), None);

        for step in ["says", "calls", "calls", "result", "result", "says", "says", "calls", "result", "says"] {
            if step == "result" { rounds.hears() } else { rounds.speaks() }
        }

        assert_eq!(rounds.count(), Some(3));
    }
}
