//! What an agent is doing, in one line.

use protocol::Progress;

/// What an agent is doing, and what it has come to so far.
pub(super) fn line(progress: &Progress) -> String {
    let tokens = [progress.tokens_in, progress.tokens_out].into_iter().flatten().reduce(u64::saturating_add);
    let files = Some(progress.files.len()).filter(|files| *files > 0);
    let so_far: Vec<String> = [
        progress.turns.map(|turns| counted(u64::from(turns), "turn")),
        progress.tool_calls.map(|calls| counted(u64::from(calls), "tool call")),
        files.map(|files| counted(files as u64, "file")),
        tokens.map(|tokens| format!("{} tokens", thousands(tokens))),
        progress.cost_usd.map(domain::dollars),
    ]
    .into_iter()
    .flatten()
    .collect();
    let doing = progress.doing.clone().unwrap_or_else(|| "at work".to_owned());
    match so_far.is_empty() {
        true => doing,
        false => format!("{doing} ({})", so_far.join(", ")),
    }
}

fn counted(count: u64, thing: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{s}")
}

fn thousands(count: u64) -> String {
    if count < 1_000 { count.to_string() } else { format!("{}k", count / 1_000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_said() {
        let progress = Progress {
            doing: Some("Edit src/lib.rs".to_owned()),
            tool_calls: Some(1),
            files: vec!["src/lib.rs".to_owned(), "src/main.rs".to_owned()],
            tokens_in: Some(12_400),
            cost_usd: Some(0.126),
            ..Progress::default()
        };

        assert_eq!(line(&progress), "Edit src/lib.rs (1 tool call, 2 files, 12k tokens, $0.13)");
        assert_eq!(line(&Progress::default()), "at work");
    }
}
