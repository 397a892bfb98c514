//! How fast output passes the scrubber: `cargo run --release -p sandbox --example scrub`.
//!
//! 64 MiB of what builds and agents print, in chunks of odd sizes, with 50 known secrets of which one stands in every
//! 100 kB. Prints one line.

use clock::SystemClock;
use domain::Clock;
use sandbox::Scrubber;

const SECRETS: usize = 50;
const BYTES: usize = 64 * 1024 * 1024;
const SECRET_EVERY: usize = 100_000;
const CHUNKS: [usize; 7] = [1, 7, 4_093, 8_191, 113, 16_381, 65_521];
const ROUNDS: usize = 3;

const LINES: [&str; 5] = [
    "   Compiling domain v0.1.0 (/work/crates/domain) in the dev profile, see https://docs.example/a\n",
    "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"I'll look at the task-runner first.\"}]}}\n",
    "test scheduler::tests::a_busy_factory_gets_no_more_than_its_seats ... ok\n",
    "warning: unused variable: `basket`\n  --> src/shop/basket.rs:117:9\n",
    "-    let price = shelf.price(name).unwrap_or_default();\n+    let price = shelf.price(name)?;\n",
];

fn main() {
    let secrets: Vec<String> =
        (0..SECRETS).map(|n| format!("{:032x}", n as u128 * 0x9E37_79B9_7F4A_7C15_F39C)).collect();
    let text = text(&secrets);
    let scrubber = Scrubber::new(&secrets);
    let clock = SystemClock::new();
    let mut fastest = 0.0_f64;
    for _ in 0..ROUNDS {
        let started = clock.monotonic();
        let scrubbed = scrub(&scrubber, &text);
        let took = clock.monotonic().saturating_sub(started);
        let masks = scrubbed.windows(8).filter(|window| window == b"[secret]").count();
        assert_eq!(masks, BYTES.div_ceil(SECRET_EVERY), "every secret is masked, and nothing else is");
        fastest = fastest.max(BYTES as f64 / 1e6 / took.as_secs_f64());
    }
    println!("scrub: {SECRETS} secrets, {} MiB, best of {ROUNDS}: {fastest:.0} MB/s", BYTES >> 20);
}

fn text(secrets: &[String]) -> Vec<u8> {
    let mut text = Vec::with_capacity(BYTES + 1_024);
    let (mut lines, mut due) = (LINES.iter().cycle(), 0);
    while text.len() < BYTES {
        if text.len() >= due {
            text.extend_from_slice(secrets[due / SECRET_EVERY % secrets.len()].as_bytes());
            text.push(b'\n');
            due += SECRET_EVERY;
        }
        text.extend(lines.next().map(|line| line.as_bytes()).unwrap_or_default());
    }
    text
}

fn scrub(scrubber: &Scrubber, text: &[u8]) -> Vec<u8> {
    let (mut stream, mut rest) = (scrubber.stream(), text);
    let mut scrubbed = Vec::with_capacity(text.len());
    for size in CHUNKS.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at((*size).min(rest.len()));
        scrubbed.extend(stream.push(chunk));
        rest = after;
    }
    scrubbed.extend(stream.finish());
    scrubbed
}
