//! Incremental parser for server-sent events.

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The id for `Last-Event-ID`.
    pub id: Option<String>,
    /// The event's name; `message` if the stream gives none.
    pub event: String,
    /// Its data.
    pub data: String,
}

/// Parses a byte stream into events, independent of chunk boundaries.
#[derive(Debug, Default)]
pub struct SseParser {
    line: Vec<u8>,
    id: Option<String>,
    event: Option<String>,
    data: Option<String>,
}

/// Maximum length of a line; a coordinator never sends more.
const LINE_LEN_MAX: usize = 4 * 1024 * 1024;

impl SseParser {
    /// Parses the next bytes and passes each complete event to `emit`.
    pub fn feed(&mut self, bytes: &[u8], mut emit: impl FnMut(SseEvent)) {
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                let text = String::from_utf8_lossy(&line);
                if let Some(event) = self.line(text.trim_end_matches('\r')) {
                    emit(event);
                }
            } else if self.line.len() < LINE_LEN_MAX {
                self.line.push(byte);
            }
        }
    }

    fn line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let data = self.data.take()?;
            let event = self.event.take().unwrap_or_else(|| "message".to_owned());
            return Some(SseEvent { id: self.id.clone(), event, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.id = Some(value.to_owned()),
            "event" => self.event = Some(value.to_owned()),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // A comment (empty field) is a keep-alive; the standard ignores unknown fields.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [U4]
    #[test]
    fn events_are_parsed_across_any_chunk_boundaries() {
        let stream = b": hello\n\nid: 7\nevent: job\ndata: {\"a\":1}\n\ndata: x\ndata: y\n\n";
        let expected = vec![
            SseEvent { id: Some("7".into()), event: "job".into(), data: "{\"a\":1}".into() },
            SseEvent { id: Some("7".into()), event: "message".into(), data: "x\ny".into() },
        ];

        for cut in 0..stream.len() {
            let mut parser = SseParser::default();
            let mut seen = Vec::new();
            parser.feed(&stream[..cut], |event| seen.push(event));
            parser.feed(&stream[cut..], |event| seen.push(event));
            assert_eq!(seen, expected, "cut at {cut}");
        }
    }
}
