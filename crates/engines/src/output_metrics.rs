//! Metrics in the output of a command, found by its configured patterns.

use domain::RunInsights;
use regex_automata::nfa::thompson::pikevm::PikeVM;
use serde_json::Value;

use super::Usage;
use crate::config::{OutputPattern, OutputPatterns};

/// Where a command prints its cost.
#[derive(Debug, Clone, Default)]
pub(super) struct OutputMetrics {
    cost_usd: Option<MetricFinder>,
    tokens_in: Option<MetricFinder>,
    tokens_out: Option<MetricFinder>,
    turns: Option<MetricFinder>,
}

#[derive(Debug, Clone)]
enum MetricFinder {
    Regex(PikeVM),
    Pointer(String),
}

/// Longer lines are not searched for metrics: a regular expression is slow on them.
const SEARCHED_BYTES_MAX: usize = 16 * 1024;

impl OutputMetrics {
    /// The configured patterns, or the error in one.
    pub(super) fn new(reads: &OutputPatterns) -> Result<Self, String> {
        let finder = |read: &Option<OutputPattern>| match read {
            None => Ok(None),
            Some(OutputPattern::Pointer(pointer)) => Ok(Some(MetricFinder::Pointer(pointer.clone()))),
            Some(OutputPattern::Regex(pattern)) => match PikeVM::new(pattern) {
                Ok(regex) => Ok(Some(MetricFinder::Regex(regex))),
                Err(_) => Err(format!("`{}` is not a regular expression", domain::escape_for_terminal(pattern))),
            },
        };
        Ok(Self {
            cost_usd: finder(&reads.cost_usd)?,
            tokens_in: finder(&reads.tokens_in)?,
            tokens_out: finder(&reads.tokens_out)?,
            turns: finder(&reads.turns)?,
        })
    }

    /// Takes the metrics of a line into `insights`; returns the state so far if there were any.
    pub(super) fn read(&self, line: &str, insights: &mut RunInsights) -> Option<Usage> {
        let object = self.wants_json(line).then(|| serde_json::from_str::<Value>(line).ok()).flatten();
        let found = |finder: &Option<MetricFinder>| finder.as_ref()?.find(line, object.as_ref());
        let whole = |finder: &Option<MetricFinder>| found(finder).map(|figure| figure as u64);
        let (cost, tokens_in, tokens_out) = (found(&self.cost_usd), whole(&self.tokens_in), whole(&self.tokens_out));
        let turns = whole(&self.turns).and_then(|turns| u32::try_from(turns).ok());
        if cost.is_none() && tokens_in.is_none() && tokens_out.is_none() && turns.is_none() {
            return None;
        }
        insights.cost_usd = cost.or(insights.cost_usd);
        insights.tokens_in = tokens_in.or(insights.tokens_in);
        insights.tokens_out = tokens_out.or(insights.tokens_out);
        insights.turns = turns.or(insights.turns);
        let RunInsights { tokens_in, tokens_out, cost_usd, turns, .. } = *insights;
        Some(Usage { tokens_in, tokens_out, cost_usd, turns })
    }

    fn wants_json(&self, line: &str) -> bool {
        let all = [&self.cost_usd, &self.tokens_in, &self.tokens_out, &self.turns];
        line.trim_start().starts_with('{') && all.iter().any(|finder| matches!(finder, Some(MetricFinder::Pointer(_))))
    }
}

impl MetricFinder {
    /// The metric in a line: a number that is valid as an amount.
    fn find(&self, line: &str, object: Option<&Value>) -> Option<f64> {
        let figure = match self {
            Self::Pointer(pointer) => object?.pointer(pointer)?.as_f64(),
            Self::Regex(regex) => {
                let end = (0..=line.len().min(SEARCHED_BYTES_MAX)).rev().find(|at| line.is_char_boundary(*at))?;
                let mut captures = regex.create_captures();
                regex.captures(&mut regex.create_cache(), &line[..end], &mut captures);
                let span = captures.get_group(1).or_else(|| captures.get_group(0))?;
                line[span.start..span.end].replace([',', '_'], "").trim().parse().ok()
            }
        };
        figure.filter(|figure: &f64| figure.is_finite() && *figure >= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [J6]
    #[test]
    fn figures_are_found_by_expression_and_by_pointer_and_the_last_counts() {
        let reads = OutputPatterns {
            cost_usd: Some(OutputPattern::Regex(r"cost: \$([0-9.]+)".to_owned())),
            tokens_in: Some(OutputPattern::Pointer("/usage/in".to_owned())),
            tokens_out: Some(OutputPattern::Regex(r"(?i)out=([0-9,]+)".to_owned())),
            turns: None,
        };
        let figures = OutputMetrics::new(&reads).unwrap();
        let mut insights = RunInsights::default();

        for line in
            ["cost: $0.5", "{\"usage\":{\"in\":12}}", "OUT=1,200 cost: $0.75", "nothing", "cost: $-1", "{broken"]
        {
            figures.read(line, &mut insights);
        }

        let expected = RunInsights {
            cost_usd: Some(0.75),
            tokens_in: Some(12),
            tokens_out: Some(1_200),
            ..RunInsights::default()
        };
        assert_eq!(insights, expected);
    }

    #[test]
    fn an_expression_that_is_none_is_refused() {
        let reads = OutputPatterns { turns: Some(OutputPattern::Regex("(".to_owned())), ..OutputPatterns::default() };

        assert_eq!(OutputMetrics::new(&reads).unwrap_err(), "`(` is not a regular expression");
    }
}
