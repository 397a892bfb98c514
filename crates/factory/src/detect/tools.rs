//! The tools that a factory detects, and how their output is read.

use domain::Capability;

/// What is read from a tool's output, beside its presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionPattern {
    /// Nothing.
    Nothing,
    /// The first number of its version: `node:20`.
    Major,
    /// The first two: `python:3.11`.
    MajorMinor,
    /// The first number of Java's: `java:21`, and `java:8` for 1.8.
    Java,
    /// The names of the graphics cards: `gpu:l4`.
    Cards,
}

/// One tool.
#[derive(Debug)]
pub(super) struct Tool {
    /// The name in manifests: `has:docker`.
    pub(super) name: &'static str,
    /// Command lines that show it works; the first success counts.
    pub(super) command_lines: &'static [&'static [&'static str]],
    /// What else their output contains.
    pub(super) reading: VersionPattern,
}

const fn tool(name: &'static str, command_lines: &'static [&'static [&'static str]], reading: VersionPattern) -> Tool {
    Tool { name, command_lines, reading }
}

/// The built-in tools.
pub(super) const TOOLS: [Tool; 11] = [
    // Its server: a client alone runs nothing.
    tool("docker", &[&["docker", "version", "--format", "{{.Server.Version}}"]], VersionPattern::Nothing),
    tool("git", &[&["git", "--version"]], VersionPattern::Nothing),
    tool("make", &[&["make", "--version"]], VersionPattern::Nothing),
    tool("cargo", &[&["cargo", "--version"]], VersionPattern::Nothing),
    tool("rust", &[&["rustc", "--version"]], VersionPattern::MajorMinor),
    tool("node", &[&["node", "--version"]], VersionPattern::Major),
    tool(
        "python",
        &[&["python3", "--version"], &["python", "--version"], &["py", "-3", "--version"]],
        VersionPattern::MajorMinor,
    ),
    tool("go", &[&["go", "version"]], VersionPattern::MajorMinor),
    tool("java", &[&["java", "-version"]], VersionPattern::Java),
    tool("xcode", &[&["xcodebuild", "-version"]], VersionPattern::Major),
    tool("gpu", &[&["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]], VersionPattern::Cards),
];

/// The capabilities of a working tool, given its output.
pub(super) fn tokens(name: &str, reading: VersionPattern, output: &str) -> Vec<Capability> {
    let numbers = numbers(output);
    let versions = match (reading, numbers.as_slice()) {
        (VersionPattern::Nothing, _) => Vec::new(),
        (VersionPattern::Cards, _) => cards(output),
        (VersionPattern::Java, [1, old, ..]) => vec![format!("java:{old}")],
        (VersionPattern::Major | VersionPattern::Java, [major, ..]) => vec![format!("{name}:{major}")],
        (VersionPattern::MajorMinor, [major, minor, ..]) => vec![format!("{name}:{major}.{minor}")],
        (VersionPattern::Major | VersionPattern::MajorMinor | VersionPattern::Java, _) => Vec::new(),
    };
    std::iter::once(format!("has:{name}")).chain(versions).filter_map(|token| token.parse().ok()).collect()
}

/// The numbers of the first version in a text: 20, 11 and 1 of `v20.11.1`.
fn numbers(output: &str) -> Vec<u32> {
    let begins = |word: &str| word.find(|c: char| c.is_ascii_digit()).filter(|at| word[..*at].chars().all(is_prefix));
    let version = output.split([' ', '\t', '\n', '"', '(', ',']).find_map(|word| Some(&word[begins(word)?..]));
    let parts = version.unwrap_or_default().split('.').map(|part| part.trim_end_matches(|c: char| !c.is_ascii_digit()));
    parts.map_while(|part| part.parse().ok()).collect()
}

/// What may precede a version in its word: `v20`, `go1.22`.
fn is_prefix(c: char) -> bool {
    c.is_ascii_lowercase()
}

/// `gpu:l4` of `NVIDIA L4`; of `NVIDIA A100-SXM4-80GB` also `gpu:a100`.
fn cards(output: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for line in output.lines() {
        let words = line.split_whitespace().filter(|word| !matches!(*word, "NVIDIA" | "Tesla" | "GeForce" | "Quadro"));
        let card = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
        let family = card.split('-').next().unwrap_or_default().to_owned();
        for token in [card, family] {
            let token = format!("gpu:{token}");
            if !tokens.contains(&token) {
                tokens.push(token);
            }
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, reading: VersionPattern, output: &str) -> Vec<String> {
        tokens(name, reading, output).iter().map(ToString::to_string).collect()
    }

    // [F1]
    #[test]
    fn versions_are_read_from_what_the_tools_print() {
        let java = "openjdk version \"21.0.2\" 2024-01-16\nOpenJDK Runtime Environment (build 21.0.2+13-58)";

        assert_eq!(told("node", VersionPattern::Major, "v20.11.1\n"), ["has:node", "node:20"]);
        assert_eq!(told("python", VersionPattern::MajorMinor, "Python 3.11.2\n"), ["has:python", "python:3.11"]);
        assert_eq!(
            told("rust", VersionPattern::MajorMinor, "rustc 1.95.0 (5980761 2026-04-14)"),
            ["has:rust", "rust:1.95"]
        );
        assert_eq!(told("go", VersionPattern::MajorMinor, "go version go1.22.1 linux/amd64"), ["has:go", "go:1.22"]);
        assert_eq!(told("java", VersionPattern::Java, java), ["has:java", "java:21"]);
        assert_eq!(told("java", VersionPattern::Java, "java version \"1.8.0_402\""), ["has:java", "java:8"]);
        assert_eq!(
            told("xcode", VersionPattern::Major, "Xcode 15.2\nBuild version 15C500b"),
            ["has:xcode", "xcode:15"]
        );
    }

    // [F1]
    #[test]
    fn words_without_a_version_still_show_that_the_tool_is_there() {
        for output in ["", "command not found", "Python", "v", "ßß 3", "1"] {
            assert_eq!(told("python", VersionPattern::MajorMinor, output), ["has:python"], "{output:?}");
        }
    }

    // [F1]
    #[test]
    fn cards_are_named_as_people_call_them() {
        let two = told("gpu", VersionPattern::Cards, "NVIDIA L4\nNVIDIA L4\n");
        let long = told("gpu", VersionPattern::Cards, "NVIDIA A100-SXM4-80GB\n");

        assert_eq!(two, ["has:gpu", "gpu:l4"]);
        assert_eq!(long, ["has:gpu", "gpu:a100-sxm4-80gb", "gpu:a100"]);
    }
}
