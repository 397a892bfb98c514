//! Figures in the output of a command, found where its configuration says.

use domain::Insights;
use regex_automata::nfa::thompson::pikevm::PikeVM;
use serde_json::Value;

use super::Usage;
use crate::config::{Read, Reads};

/// Where a command says what it cost.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    cost_usd: Option<Finder>,
    tokens_in: Option<Finder>,
    tokens_out: Option<Finder>,
    turns: Option<Finder>,
}

#[derive(Debug, Clone)]
enum Finder {
    Regex(PikeVM),
    Pointer(String),
}

/// Nobody writes a figure behind this much text; a regular expression takes its time over every byte.
const SEARCHED_BYTES_MAX: usize = 16 * 1024;

impl Figures {
    /// The figures that are asked for, or what is wrong with the asking.
    pub(super) fn new(reads: &Reads) -> Result<Self, String> {
        let finder = |read: &Option<Read>| match read {
            None => Ok(None),
            Some(Read::Pointer(pointer)) => Ok(Some(Finder::Pointer(pointer.clone()))),
            Some(Read::Regex(pattern)) => match PikeVM::new(pattern) {
                Ok(regex) => Ok(Some(Finder::Regex(regex))),
                Err(_) => Err(format!("`{}` is not a regular expression", domain::printable(pattern))),
            },
        };
        Ok(Self {
            cost_usd: finder(&reads.cost_usd)?,
            tokens_in: finder(&reads.tokens_in)?,
            tokens_out: finder(&reads.tokens_out)?,
            turns: finder(&reads.turns)?,
        })
    }

    /// Takes what a line says into `insights`; gives what is known so far if it said something.
    pub(super) fn read(&self, line: &str, insights: &mut Insights) -> Option<Usage> {
        let object = self.wants_json(line).then(|| serde_json::from_str::<Value>(line).ok()).flatten();
        let found = |finder: &Option<Finder>| finder.as_ref()?.find(line, object.as_ref());
        let whole = |finder: &Option<Finder>| found(finder).map(|figure| figure as u64);
        let (cost, tokens_in, tokens_out) = (found(&self.cost_usd), whole(&self.tokens_in), whole(&self.tokens_out));
        let turns = whole(&self.turns).and_then(|turns| u32::try_from(turns).ok());
        if cost.is_none() && tokens_in.is_none() && tokens_out.is_none() && turns.is_none() {
            return None;
        }
        insights.cost_usd = cost.or(insights.cost_usd);
        insights.tokens_in = tokens_in.or(insights.tokens_in);
        insights.tokens_out = tokens_out.or(insights.tokens_out);
        insights.turns = turns.or(insights.turns);
        let Insights { tokens_in, tokens_out, cost_usd, turns, .. } = *insights;
        Some(Usage { tokens_in, tokens_out, cost_usd, turns })
    }

    fn wants_json(&self, line: &str) -> bool {
        let all = [&self.cost_usd, &self.tokens_in, &self.tokens_out, &self.turns];
        line.trim_start().starts_with('{') && all.iter().any(|finder| matches!(finder, Some(Finder::Pointer(_))))
    }
}

impl Finder {
    /// The figure in a line: a number that makes sense as an amount.
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

    #[test]
    fn figures_are_found_by_expression_and_by_pointer_and_the_last_counts() {
        let reads = Reads {
            cost_usd: Some(Read::Regex(r"cost: \$([0-9.]+)".to_owned())),
            tokens_in: Some(Read::Pointer("/usage/in".to_owned())),
            tokens_out: Some(Read::Regex(r"(?i)out=([0-9,]+)".to_owned())),
            turns: None,
        };
        let figures = Figures::new(&reads).unwrap();
        let mut insights = Insights::default();

        for line in
            ["cost: $0.5", "{\"usage\":{\"in\":12}}", "OUT=1,200 cost: $0.75", "nothing", "cost: $-1", "{broken"]
        {
            figures.read(line, &mut insights);
        }

        let expected =
            Insights { cost_usd: Some(0.75), tokens_in: Some(12), tokens_out: Some(1_200), ..Insights::default() };
        assert_eq!(insights, expected);
    }

    #[test]
    fn an_expression_that_is_none_is_refused() {
        let reads = Reads { turns: Some(Read::Regex("(".to_owned())), ..Reads::default() };

        assert_eq!(Figures::new(&reads).unwrap_err(), "`(` is not a regular expression");
    }
}
