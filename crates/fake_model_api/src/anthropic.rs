//! The Anthropic messages API, streamed.

use serde_json::{Value, json};

use crate::http::Answer;
use crate::script::{Act, MCP_SERVER, Turn, Usage};

/// Reports whether this is a side request, such as for a title. Requests of the main loop always have tools.
pub(crate) fn is_side_request(body: &Value) -> bool {
    body["tools"].as_array().is_none_or(Vec::is_empty)
}

/// Answers a side request.
pub(crate) fn answer_side_request(body: &Value) -> Answer {
    respond(&Turn::text("Work"), 0, body)
}

/// Answers with the scripted turn.
pub(crate) fn respond(turn: &Turn, number: u64, body: &Value) -> Answer {
    let tool = |name: &str, input: Value| {
        let id = format!("toolu_{number}");
        let start = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
        let delta = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
        message(number, body, turn.usage, [start, delta], "tool_use")
    };
    match &turn.act {
        Act::Write { path, content } => tool("Write", json!({ "file_path": path, "content": content })),
        Act::Run { command } => tool("Bash", json!({ "command": command, "description": "Run it" })),
        Act::Call { tool: name, input } => tool(&format!("mcp__{MCP_SERVER}__{name}"), input.clone()),
        Act::Say { text } => {
            let start = json!({ "type": "text", "text": "" });
            message(number, body, turn.usage, [start, json!({ "type": "text_delta", "text": text })], "end_turn")
        }
        Act::Fail { status, kind, message } => Answer::json(*status, &error(kind, message)),
        Act::UsageLimit { resets_at_s } => usage_limit(*resets_at_s),
    }
}

fn message(number: u64, body: &Value, usage: Usage, [start, delta]: [Value; 2], stop: &str) -> Answer {
    let Usage { tokens_in, tokens_cached, tokens_out } = usage;
    let read = json!({
        "input_tokens": tokens_in - tokens_cached, "cache_read_input_tokens": tokens_cached, "output_tokens": 1,
    });
    let message = json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": body["model"], "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": read,
    });
    Answer::events(&[
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": start }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({
            "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null },
            "usage": { "output_tokens": tokens_out },
        }),
        json!({ "type": "message_stop" }),
    ])
}

/// The window is in the headers. Agent programs read them only with a subscription's token.
fn usage_limit(resets_at_s: i64) -> Answer {
    let refusal = Answer::json(429, &error("rate_limit_error", "This request would exceed your account's rate limit."));
    let headers = [
        ("anthropic-ratelimit-unified-status", "rejected".to_owned()),
        ("anthropic-ratelimit-unified-representative-claim", "five_hour".to_owned()),
        ("anthropic-ratelimit-unified-reset", resets_at_s.to_string()),
        ("anthropic-ratelimit-unified-5h-status", "rejected".to_owned()),
        ("anthropic-ratelimit-unified-5h-reset", resets_at_s.to_string()),
        ("anthropic-ratelimit-unified-5h-utilization", "1.0".to_owned()),
    ];
    Answer { headers: headers.to_vec(), ..refusal }
}

fn error(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_limit_names_its_window_and_reset_time() {
        let answer = respond(&Turn::usage_limit(1_800_000_000), 1, &Value::Null);

        assert_eq!(answer.status, 429);
        let reset = ("anthropic-ratelimit-unified-reset", "1800000000".to_owned());
        assert!(answer.headers.contains(&reset), "{:?}", answer.headers);
    }

    #[test]
    fn a_request_without_tools_is_not_scripted() {
        assert!(is_side_request(&json!({ "messages": [] })));
        assert!(!is_side_request(&json!({ "tools": [{ "name": "Write" }] })));
    }
}
