//! GitHub through the program `gh`, with its own credential.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue};
use sandbox::Group;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::http::{ANSWER_LEN_MAX, ForgeCall, ForgeReply, ForgeTransport, ForgeUnreachable};

/// How long one call of the program may take.
const CALL_TIME_MAX: Duration = Duration::from_secs(20);

/// GitHub through `gh`. Its credential is in its own home directory and never read here.
pub(super) struct Gh {
    program: PathBuf,
    home: PathBuf,
    path: OsString,
    host: String,
}

impl Gh {
    pub(super) fn new(program: PathBuf, home: PathBuf, path: OsString, host: String) -> Self {
        Self { program, home, path, host }
    }

    fn command(&self, call: &ForgeCall) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("PATH", &self.path).env("HOME", &self.home).env("GH_HOST", &self.host);
        command.env("GH_PROMPT_DISABLED", "1").env("GH_NO_UPDATE_NOTIFIER", "1").env("NO_COLOR", "1");
        command.current_dir(&self.home);
        command.args(["api", "--include", "--method", call.method.as_str()]);
        if let Some(etag) = &call.etag {
            command.arg("--header").arg(format!("If-None-Match: {etag}"));
        }
        if call.body.is_some() {
            command.args(["--input", "-"]);
        }
        command.arg(call.path.trim_start_matches('/'));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        command
    }
}

#[async_trait]
impl ForgeTransport for Gh {
    async fn follow(&self, _address: &str) -> Result<ForgeReply, ForgeUnreachable> {
        // It follows redirects by itself.
        Err(ForgeUnreachable::Away("gh has followed already".to_owned()))
    }

    async fn carry(&self, call: &ForgeCall) -> Result<ForgeReply, ForgeUnreachable> {
        let mut child = self
            .command(call)
            .spawn()
            .map_err(|error| ForgeUnreachable::NoToken(format!("cannot start gh: {error}")))?;
        let group = Group::of(&child);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let body = call.body.clone().unwrap_or_default();
        let everything = async {
            let feed = async {
                if let Some(mut pipe) = stdin {
                    let _ = pipe.write_all(&body).await;
                }
            };
            let ((), said, complained) = tokio::join!(feed, read(stdout), read(stderr));
            // Its exit code contains less than the printed status.
            let _ = child.wait().await;
            (said, complained)
        };
        let Ok((said, complained)) = tokio::time::timeout(CALL_TIME_MAX, everything).await else {
            group.kill();
            return Err(ForgeUnreachable::Away(format!("gh did not end within {CALL_TIME_MAX:?}")));
        };
        match parse(&said) {
            Some(reply) => Ok(reply),
            None => {
                let complaint = domain::escape_for_terminal(String::from_utf8_lossy(&complained).trim());
                let is_login = complaint.contains("auth login") || complaint.contains("authentication");
                Err(if is_login { ForgeUnreachable::NoToken(complaint) } else { ForgeUnreachable::Away(complaint) })
            }
        }
    }
}

async fn read(pipe: Option<impl tokio::io::AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(ANSWER_LEN_MAX as u64).read_to_end(&mut bytes).await;
    }
    bytes
}

/// Reads a status line, headers, an empty line and a body.
fn parse(said: &[u8]) -> Option<ForgeReply> {
    let mut rest = said;
    let mut line = || {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let (line, after) = rest.split_at(end);
        rest = &after[1..];
        std::str::from_utf8(line).ok().map(|line| line.trim_end_matches('\r').to_owned())
    };
    let status = line()?.strip_prefix("HTTP/")?.split(' ').nth(1)?.parse().ok()?;
    let mut headers = HeaderMap::new();
    loop {
        let header = line()?;
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(": ")
            && let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value))
        {
            headers.insert(name, value);
        }
    }
    Some(ForgeReply { status, headers, body: rest.to_vec().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gh_prints_is_an_answer_with_its_headers() {
        let said = b"HTTP/2.0 404 Not Found\r\nEtag: \"x\"\r\nX-Odd\r\n\r\n{\"message\":\"no\"}";

        let reply = parse(said).unwrap();

        assert_eq!(reply.status, 404);
        assert_eq!(reply.headers.get("etag").unwrap(), "\"x\"");
        assert_eq!(&reply.body[..], br#"{"message":"no"}"#);
    }

    #[test]
    fn anything_else_is_no_answer() {
        for said in ["", "gh: not logged in\n", "HTTP/2.0\r\n\r\n", "HTTP/2.0 200 OK\r\nA: b\r\n"] {
            assert!(parse(said.as_bytes()).is_none(), "{said:?}");
        }
    }
}
