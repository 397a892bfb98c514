//! A small agent, played by this binary in a process of its own.

use std::io::{Lines, StdinLock, Write};
use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::host::role_arguments;

#[test]
#[ignore = "a role that other tests start as a process"]
fn plays_the_agent() {
    let Some(args) = role_arguments() else { return };
    let manner = args[0].to_str().unwrap().to_owned();
    // The test harness has begun a line of its own.
    println!();
    let agent = Agent { manner, lines: std::io::stdin().lines(), tree: PathBuf::new(), number: 100 };
    std::process::exit(agent.live());
}

struct Agent {
    manner: String,
    lines: Lines<StdinLock<'static>>,
    tree: PathBuf,
    number: i64,
}

impl Agent {
    /// Answers until its input is closed.
    fn live(mut self) -> i32 {
        while let Some(message) = self.hear() {
            let id = message["id"].clone();
            let (params, manner) = (&message["params"], self.manner.clone());
            match (message["method"].as_str().unwrap_or_default(), manner.as_str()) {
                ("initialize", "is-too-new") => self.answer(&id, &json!({ "protocolVersion": 9 })),
                ("initialize", "remembers" | "forgets") => {
                    self.answer(&id, &json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": true } }));
                }
                ("initialize", _) => self.answer(&id, &json!({ "protocolVersion": 1 })),
                ("session/load", "forgets") => self.refuse(&id, -32002, "Resource not found", &Value::Null),
                ("session/load", _) => {
                    self.tree = params["cwd"].as_str().unwrap().into();
                    self.update(&chunk("What I said before."));
                    self.update(&cost(1.0));
                    self.answer(&id, &Value::Null);
                }
                ("session/new", "signed-out") => self.refuse(&id, -32000, "Authentication required", &Value::Null),
                ("session/new", _) => {
                    self.tree = params["cwd"].as_str().unwrap().into();
                    self.answer(&id, &json!({ "sessionId": "s-1" }));
                }
                ("session/prompt", _) => {
                    let prompt = params["prompt"][0]["text"].as_str().unwrap().to_owned();
                    if let Some(code) = self.work(&id, &prompt) {
                        return code;
                    }
                }
                (method, _) => self.refuse(&id, -32601, method, &Value::Null),
            }
        }
        if self.manner == "lingers" {
            std::thread::park();
        }
        0
    }

    /// One turn. Returns an exit code to leave with at once.
    fn work(&mut self, id: &Value, prompt: &str) -> Option<i32> {
        match self.manner.clone().as_str() {
            "works" => self.copy(prompt),
            "writes-much" => {
                let params =
                    json!({ "sessionId": "s-1", "path": self.tree.join("much"), "content": "\"".repeat(5 << 20) });
                self.ask("fs/write_text_file", &params);
            }
            "climbs" => self.climb(),
            "remembers" => {
                std::fs::write(self.tree.join("prompt"), prompt).unwrap();
                self.update(&cost(1.25));
            }
            "forgets" => std::fs::write(self.tree.join("prompt"), prompt).unwrap(),
            "limited" => {
                self.refuse(id, -32603, "Usage limit reached", &json!({ "resetsAt": 1_800_000_000 }));
                return None;
            }
            "in-trouble" => {
                self.refuse(id, -32603, "Internal error", &Value::Null);
                return None;
            }
            "dies" => {
                eprintln!("it hurts");
                return Some(7);
            }
            "waits" => {
                std::fs::write(self.tree.join("at-work"), "").unwrap();
                let told = self.hear().unwrap();
                assert_eq!(told["method"], "session/cancel");
                std::fs::write(self.tree.join("cancelled"), told["params"]["sessionId"].as_str().unwrap()).unwrap();
            }
            _ => {}
        }
        let reason = match self.manner.as_str() {
            "refuses" => "refusal",
            "runs-out" => "max_tokens",
            "waits" => "cancelled",
            _ => "end_turn",
        };
        let usage = json!({ "totalTokens": 160, "inputTokens": 100, "outputTokens": 20, "cachedReadTokens": 40 });
        self.answer(id, &json!({ "stopReason": reason, "usage": usage }));
        None
    }

    /// Reads a file and writes another through the client, and asks whether it may run a command.
    fn copy(&mut self, prompt: &str) {
        let (from, to) = (self.tree.join("readme.md"), self.tree.join("src/copy.md"));
        for scrap in ["I ", "copy ", "it."] {
            self.update(&chunk(scrap));
        }
        let call = json!({
            "sessionUpdate": "tool_call", "toolCallId": "c-1", "title": "Copy", "kind": "edit", "status": "in_progress",
            "locations": [{ "path": to }],
        });
        self.update(&call);
        let read = self.ask("fs/read_text_file", &json!({ "sessionId": "s-1", "path": from }));
        let content = format!("{}{prompt}", read["result"]["content"].as_str().unwrap());
        self.ask("fs/write_text_file", &json!({ "sessionId": "s-1", "path": to, "content": content }));
        let options = json!([
            { "optionId": "always", "name": "Always", "kind": "allow_always" },
            { "optionId": "once", "name": "Once", "kind": "allow_once" },
            { "optionId": "no", "name": "No", "kind": "reject_once" },
        ]);
        let call = json!({ "toolCallId": "c-2", "title": "touch permitted", "kind": "execute" });
        let params = json!({ "sessionId": "s-1", "toolCall": call, "options": options });
        let chosen = self.ask("session/request_permission", &params)["result"]["outcome"]["optionId"].clone();
        if chosen != "no" {
            std::fs::write(self.tree.join("permitted"), chosen.as_str().unwrap()).unwrap();
        }
        self.update(&cost(0.25));
    }

    /// Tries to leave the worktree, and records the answers.
    fn climb(&mut self) {
        let outside = self.tree.parent().unwrap().join("secret");
        let ways = [
            outside,
            self.tree.join("../secret"),
            self.tree.join("up/secret"),
            self.tree.join(".git/config"),
            PathBuf::from("secret"),
        ];
        let mut answers = Vec::new();
        for way in ways {
            answers.push(self.ask("fs/read_text_file", &json!({ "sessionId": "s-1", "path": way })));
            let params = json!({ "sessionId": "s-1", "path": way, "content": "overwritten" });
            answers.push(self.ask("fs/write_text_file", &params));
        }
        std::fs::write(self.tree.join("answers.json"), Value::Array(answers).to_string()).unwrap();
    }

    fn hear(&mut self) -> Option<Value> {
        let line = self.lines.next()?.unwrap();
        Some(serde_json::from_str(&line).unwrap())
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        say(&json!({ "jsonrpc": "2.0", "id": self.number, "method": method, "params": params }));
        let answer = self.hear().unwrap();
        assert_eq!(answer["id"], self.number);
        answer
    }

    fn answer(&self, id: &Value, result: &Value) {
        say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    fn refuse(&self, id: &Value, code: i64, message: &str, data: &Value) {
        say(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message, "data": data } }));
    }

    fn update(&self, update: &Value) {
        let params = json!({ "sessionId": "s-1", "update": update });
        say(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
    }
}

fn chunk(text: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } })
}

fn cost(amount: f64) -> Value {
    json!({ "sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": { "amount": amount, "currency": "USD" } })
}

fn say(message: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{message}").unwrap();
    out.flush().unwrap();
}
