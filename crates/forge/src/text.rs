//! Texts of pull requests and comments.

use std::time::Duration;

use domain::{Evidence, JobId, RunInsights, RunKey};

/// The marks around the fleet's part of a pull request's text.
const BEGIN: &str = "<!-- gigafactory:begin -->";
const END: &str = "<!-- gigafactory:end -->";

/// The prefix of every comment of a fleet.
const MARK: &str = "<!-- gigafactory:job:";

/// The longest text: less than a forge's limit, and the limit of the coordinator.
const TEXT_CHARS_MAX: usize = 30_000;

/// The longest shown output of one verify command.
const OUTPUT_CHARS_MAX: usize = 1_500;

/// The evidence that the work is done [B4].
pub struct VerifiedClaim<'a> {
    /// The run that did the work.
    pub run: RunKey,
    /// What the run used.
    pub insights: &'a RunInsights,
    /// The commands that verified the work.
    pub verified: &'a [Evidence],
    /// The agent's last message.
    pub ending: Option<&'a str>,
}

/// The text of a pull request: the agent's own text in the repository's template, and the evidence.
pub fn pull_request_text(own: Option<&str>, title: &str, form: Option<&str>, evidenced: &VerifiedClaim<'_>) -> String {
    let own = own.map(str::trim).filter(|own| !own.is_empty()).unwrap_or(title);
    let told = match form {
        Some(form) => filled(form, own),
        None => own.to_owned(),
    };
    let evidence = evidence(evidenced);
    let room = TEXT_CHARS_MAX.saturating_sub(evidence.chars().count() + 200);
    let told: String = told.replace(BEGIN, "").replace(END, "").chars().take(room).collect();
    format!("{BEGIN}\n{}\n\n{evidence}{END}", told.trim_end())
}

/// The text of a pull request for work that was completed by a factory without a forge.
pub fn bare_pull_request_text(title: &str) -> String {
    format!("{BEGIN}\n{title}\n{END}")
}

/// The text of a pull request with the fleet's part replaced. People's changes around it stay.
pub(super) fn merged_body(there: &str, ours: &str) -> String {
    let ours_there = there.find(BEGIN).zip(there.find(END)).filter(|(begin, end)| begin < end);
    match ours_there {
        Some((begin, end)) => format!("{}{ours}{}", &there[..begin], &there[end + END.len()..]),
        // A person replaced the text, or removed the marks: it is left unchanged.
        None if !there.trim().is_empty() => there.to_owned(),
        None => ours.to_owned(),
    }
}

/// The text of a job's one comment.
pub fn status_comment(job: JobId, stage: &str, text: &str) -> String {
    format!("**{stage}** — {text}\n\n<sub>job `{job}`</sub>")
}

/// The prefix of a job's one comment, by which it is found again.
pub(super) fn marker(job: JobId) -> String {
    format!("{MARK}{job} -->")
}

/// Whether a comment was written by a fleet.
pub(super) fn is_ours(body: &str) -> bool {
    body.contains(MARK) || body.contains(BEGIN)
}

/// The repository's template with the agent's text in its first section. A text with all of its headings replaces it.
fn filled(form: &str, own: &str) -> String {
    let form = without_remarks(form);
    let headings: Vec<&str> = form.lines().filter(|line| line.starts_with('#')).collect();
    let has_all = headings.iter().all(|heading| own.lines().any(|line| line.trim_end() == heading.trim_end()));
    if form.trim().is_empty() || (has_all && !headings.is_empty()) {
        return own.to_owned();
    }
    let Some(first) = headings.first() else { return format!("{own}\n\n{}", form.trim()) };
    match form.split_once(first) {
        Some((before, after)) => format!("{}{first}\n\n{own}\n{}", before.trim_start(), after.trim_end()),
        None => own.to_owned(),
    }
}

/// A template without its instructions to the author.
fn without_remarks(form: &str) -> String {
    let mut kept = String::new();
    let mut rest = form;
    while let Some((before, after)) = rest.split_once("<!--") {
        kept.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept
}

fn evidence(evidenced: &VerifiedClaim<'_>) -> String {
    let mut text = String::from("### Evidence\n\n");
    for one in evidenced.verified {
        let mark = if one.exit == Some(0) { "✅" } else { "❌" };
        let took = Duration::from_millis(one.took_ms);
        let step = if one.step.is_verify() { "" } else { "prepare: " };
        text.push_str(&format!("- {mark} {step}`{}` in {took:.1?}\n", one.command.replace(['`', '\n'], " ")));
    }
    if !evidenced.verified.iter().any(|one| one.step.is_verify()) {
        text.push_str("- nothing was asked to be verified\n");
    }
    text.push_str(&format!("- {}\n", figures(evidenced.insights)));
    text.push_str(&format!("- job `{}`, epoch {}\n", evidenced.run.job, evidenced.run.epoch));
    for one in evidenced.verified.iter().filter(|one| !one.output.trim().is_empty()) {
        let summary = one.command.replace(['<', '>', '\n'], " ");
        text.push_str(&format!("\n<details><summary>{summary}</summary>\n\n{}\n</details>\n", fenced(&one.output)));
    }
    if let Some(ending) = evidenced.ending {
        text.push_str(&format!(
            "\n<details><summary>what the engine said at its end</summary>\n\n{}\n</details>\n",
            fenced(ending)
        ));
    }
    text
}

fn figures(insights: &RunInsights) -> String {
    let counted = |count: Option<u32>, what: &str| count.map(|count| format!("{count} {what}"));
    let known = [
        counted(insights.files, "files"),
        counted(insights.insertions, "lines added"),
        counted(insights.deletions, "removed"),
        counted(insights.turns, "turns"),
        insights.cost_usd.map(domain::dollars),
    ];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if known.is_empty() { "nothing is known about its size".to_owned() } else { known.join(", ") }
}

/// The end of an output as a code block that its content cannot close.
fn fenced(output: &str) -> String {
    let surplus = output.chars().count().saturating_sub(OUTPUT_CHARS_MAX);
    let shown: String =
        output.chars().skip(surplus).filter(|c| *c == '\n' || *c == '\t' || domain::is_terminal_safe(*c)).collect();
    let longest = shown.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}", shown.trim_end())
}

#[cfg(test)]
mod tests {
    use domain::Epoch;

    use super::*;

    fn run() -> RunKey {
        RunKey { job: "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap(), epoch: Epoch(2) }
    }

    fn verified(output: &str) -> Vec<Evidence> {
        vec![Evidence {
            command: "make test".to_owned(),
            exit: Some(0),
            output: output.to_owned(),
            took_ms: 1_500,
            ..Evidence::default()
        }]
    }

    // [B4]
    #[test]
    fn a_request_tells_what_the_agent_says_and_what_backs_it() {
        let insights = RunInsights { files: Some(2), cost_usd: Some(0.5), ..RunInsights::default() };
        let verified = verified("ok\n");
        let evidenced = VerifiedClaim { run: run(), insights: &insights, verified: &verified, ending: None };

        let text = pull_request_text(Some("Adds it.\n"), "Add it", None, &evidenced);

        let expected = "<!-- gigafactory:begin -->\nAdds it.\n\n### Evidence\n\n- ✅ `make test` in 1.5s\n- 2 files, $0.50\n\
            - job `0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a`, epoch 2\n\n<details><summary>make test</summary>\n\n```text\nok\n```\n</details>\n\
            <!-- gigafactory:end -->";
        assert_eq!(text, expected);
    }

    // [F5]
    #[test]
    fn a_form_is_filled_in_its_first_section_and_keeps_the_others() {
        let form = "<!-- be brief -->\n## What\n\n<!-- say it -->\n\n## Risks\n\n- [ ] none\n";

        assert_eq!(filled(form, "Adds it."), "## What\n\nAdds it.\n\n\n\n\n## Risks\n\n- [ ] none");
        assert_eq!(filled(form, "## What\nx\n## Risks\ny"), "## What\nx\n## Risks\ny");
        assert_eq!(filled("Checked by: me\n", "Adds it."), "Adds it.\n\nChecked by: me");
    }

    #[test]
    fn an_output_cannot_end_its_own_block() {
        assert_eq!(fenced("a\n```\n# b"), "````text\na\n```\n# b\n````");
    }

    #[test]
    fn only_our_part_of_a_text_is_ever_replaced() {
        let ours = |text: &str| format!("{BEGIN}\n{text}\n{END}");

        assert_eq!(merged_body("", &ours("a")), ours("a"));
        assert_eq!(merged_body(&format!("Hi.\n{}\nBye.", ours("a")), &ours("b")), format!("Hi.\n{}\nBye.", ours("b")));
        assert_eq!(merged_body("Written by a person", &ours("b")), "Written by a person");
    }

    #[test]
    fn a_huge_text_is_cut_and_still_ends_as_it_should() {
        let insights = RunInsights::default();
        let evidenced = VerifiedClaim { run: run(), insights: &insights, verified: &[], ending: None };

        let text = pull_request_text(Some(&"é".repeat(100_000)), "x", None, &evidenced);

        assert!(text.chars().count() <= TEXT_CHARS_MAX && text.ends_with(END));
    }
}
