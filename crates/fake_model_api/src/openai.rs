//! The OpenAI responses API, streamed.

use serde_json::{Value, json};

use crate::http::Answer;
use crate::script::{Act, MCP_SERVER, Turn, Usage};

/// Answers with the scripted turn.
pub(crate) fn respond(turn: &Turn, number: u64, body: &Value) -> Answer {
    let command = |command: &str| completed(number, turn.usage, &shell_call(number, body, command));
    match &turn.act {
        Act::Write { path, content } => command(&format!("printf %s {} > {}", quoted(content), quoted(path))),
        Act::Run { command: line } => command(line),
        Act::Call { tool, input } => completed(number, turn.usage, &mcp_call(number, body, tool, input)),
        Act::Say { text } => {
            let content = json!([{ "type": "output_text", "text": text }]);
            let id = format!("msg_{number}");
            let item = json!({ "type": "message", "id": id, "role": "assistant", "content": content });
            completed(number, turn.usage, &item)
        }
        Act::Fail { status, kind, message } => {
            Answer::json(*status, &json!({ "error": { "type": kind, "message": message } }))
        }
        Act::UsageLimit { resets_at_s } => {
            let error = json!({
                "type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "pro",
                "resets_at": resets_at_s,
            });
            Answer::json(429, &json!({ "error": error }))
        }
    }
}

/// A call of the shell tool, under the name that this version of the program uses.
fn shell_call(number: u64, body: &Value, command: &str) -> Value {
    let offers =
        |name: &str| body["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["name"] == name));
    let (name, arguments) = if offers("exec_command") {
        ("exec_command", json!({ "cmd": command }))
    } else {
        ("shell", json!({ "command": ["bash", "-lc", command] }))
    };
    json!({
        "type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"), "name": name,
        "arguments": arguments.to_string(),
    })
}

/// A call of a tool of the run's MCP server: in its namespace where this version of the program has namespaces.
fn mcp_call(number: u64, body: &Value, tool: &str, input: &Value) -> Value {
    let server = format!("mcp__{MCP_SERVER}");
    let is_namespace = |offered: &Value| {
        let name = offered["name"].as_str().unwrap_or_default();
        offered["type"] == "namespace" && name.trim_end_matches('_') == server
    };
    let namespace = body["tools"].as_array().and_then(|tools| tools.iter().find(|offered| is_namespace(offered)));
    let mut call = json!({
        "type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"),
        "name": format!("{server}__{tool}"), "arguments": input.to_string(),
    });
    if let Some(namespace) = namespace {
        call["namespace"] = namespace["name"].clone();
        call["name"] = tool.into();
    }
    call
}

fn completed(number: u64, usage: Usage, item: &Value) -> Answer {
    let Usage { tokens_in, tokens_cached, tokens_out } = usage;
    let id = format!("resp_{number}");
    let usage = json!({
        "input_tokens": tokens_in, "input_tokens_details": { "cached_tokens": tokens_cached },
        "output_tokens": tokens_out, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": tokens_in + tokens_out,
    });
    Answer::events(&[
        json!({ "type": "response.created", "response": { "id": id } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": id, "usage": usage } }),
    ])
}

/// Quotes one word of a shell command line.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(tool: &str) -> Value {
        let body = json!({ "tools": [{ "type": "function", "name": tool }] });
        shell_call(1, &body, "true")
    }

    #[test]
    fn a_command_uses_the_tool_that_the_program_offers() {
        assert_eq!(arguments("exec_command")["name"], "exec_command");
        assert_eq!(arguments("shell")["arguments"], r#"{"command":["bash","-lc","true"]}"#);
    }

    #[test]
    fn a_tool_is_called_in_its_namespace_where_there_is_one() {
        let flat = json!({ "tools": [{ "type": "function", "name": "mcp__giga__ask_human" }] });
        let spaced = json!({ "tools": [{ "type": "namespace", "name": "mcp__giga__", "tools": [] }] });

        assert_eq!(mcp_call(1, &flat, "ask_human", &json!({}))["name"], "mcp__giga__ask_human");
        let call = mcp_call(1, &spaced, "ask_human", &json!({}));
        assert_eq!((&call["namespace"], &call["name"]), (&"mcp__giga__".into(), &"ask_human".into()));
    }

    #[test]
    fn a_quote_stays_inside_its_word() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
