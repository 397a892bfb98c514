//! Calls that were refused to Codex, by its own record: they do not appear in its stream.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::stream::{one_line, text_at};

/// Calls that were refused, and not made later.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Calls without an answer.
    calls: BTreeMap<String, String>,
    refused: Vec<String>,
}

/// The prefix of the answer to a call that Codex refused. That of a command which ran starts with its exit code and its
/// time, so that no output is mistaken for a refusal.
const REFUSED: [&str; 3] =
    ["approval policy is ", "exec_command failed: CreateProcess { message: \"Rejected(", "patch rejected: "];

/// Codex rejects some forms of a command, whatever is allowed, and tells its model to use another. That is advice.
const ADVICE: &str = "Use a safer approach";

/// Concurrent calls; more refusals than a message can name.
const CALLS_MAX: usize = 64;
const REFUSALS_MAX: usize = 5;

impl Refusals {
    /// Takes a line of the record.
    pub(super) fn take(&mut self, line: &Value) {
        let Some(id) = text_at(line, "/payload/call_id") else { return };
        match line.pointer("/payload/type").and_then(Value::as_str).unwrap_or_default() {
            "function_call" => {
                if self.calls.len() >= CALLS_MAX {
                    self.calls.clear();
                }
                self.calls.insert(id, shown(line));
            }
            "function_call_output" => {
                let Some(call) = self.calls.remove(&id) else { return };
                let output = line.pointer("/payload/output").and_then(Value::as_str).unwrap_or_default();
                let is_refused = REFUSED.iter().any(|words| output.starts_with(words)) && !output.contains(ADVICE);
                if !is_refused {
                    self.refused.retain(|refused| *refused != call);
                } else if self.refused.len() < REFUSALS_MAX && !self.refused.contains(&call) {
                    self.refused.push(call);
                }
            }
            _ => {}
        }
    }

    /// The calls that were refused and not made later.
    pub(super) fn standing(&self) -> &[String] {
        &self.refused
    }
}

/// A call for people: its command, or its name.
fn shown(line: &Value) -> String {
    let arguments = text_at(line, "/payload/arguments").unwrap_or_default();
    let arguments: Value = serde_json::from_str(&arguments).unwrap_or_default();
    let words = |list: &Value| Some(list.as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    let command = text_at(&arguments, "/cmd").or_else(|| words(arguments.get("command")?));
    match command {
        Some(command) => format!("Shell ({})", one_line(&command)),
        None => one_line(&text_at(line, "/payload/name").unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn standing(calls: &[(&str, &str)]) -> Vec<String> {
        let mut refusals = Refusals::default();
        for (command, output) in calls {
            let arguments = json!({ "cmd": command }).to_string();
            let call =
                json!({ "type": "function_call", "call_id": "c", "name": "exec_command", "arguments": arguments });
            let answer = json!({ "type": "function_call_output", "call_id": "c", "output": output });
            refusals.take(&json!({ "payload": call }));
            refusals.take(&json!({ "payload": answer }));
        }
        refusals.standing().to_vec()
    }

    const RAN: &str = "Chunk ID: 69e7bb\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n";
    const NEVER: &str = "approval policy is Never; reject command \u{2014} you cannot ask for escalated permissions";

    // [F2]
    #[test]
    fn a_refused_call_stands_until_it_was_made_after_all() {
        let by_rule =
            "exec_command failed: CreateProcess { message: \"Rejected(\\\"`curl x` rejected: no network\\\")\" }";
        let patch = "patch rejected: writing outside of the project; rejected by user approval settings";

        assert_eq!(standing(&[("make", RAN), ("curl x", NEVER)]), ["Shell (curl x)"]);
        assert_eq!(standing(&[("curl x", by_rule), ("curl x", by_rule)]), ["Shell (curl x)"]);
        assert_eq!(standing(&[("apply_patch <<EOF\nx\nEOF", patch)]), ["Shell (apply_patch <<EOF x EOF)"]);
        assert_eq!(standing(&[("curl x", NEVER), ("curl x", RAN)]), [""; 0]);
    }

    // [F2]
    #[test]
    fn words_in_an_output_and_advice_are_no_refusals() {
        let output = format!("{RAN}{NEVER}");
        let advice = "exec_command failed: CreateProcess { message: \"Rejected(\\\"`rm -rf x` rejected: rm -f style commands \
            are not permitted. Use a safer approach\\\")\" }";

        assert_eq!(standing(&[("cat notes", &output), ("rm -rf x", advice)]), [""; 0]);
    }
}
