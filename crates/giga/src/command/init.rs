//! `giga init`

use std::io::Write;

use crate::failure::Failure;
use crate::output::Output;

const FILES: [(&str, &str); 2] =
    [("giga.toml", include_str!("init/giga.toml")), ("job.md", include_str!("init/job.md"))];

/// Writes a configuration and a sample job. What is there already stays as it is.
pub(super) fn init(out: &Output) -> Result<(), Failure> {
    let mut written = Vec::new();
    let mut kept = Vec::new();
    for (name, text) in FILES {
        match std::fs::File::create_new(name).and_then(|mut file| file.write_all(text.as_bytes())) {
            Ok(()) => written.push(name),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => kept.push(name),
            Err(error) => {
                return Err(Failure::failed(format!("cannot write {name}: {error}"))
                    .hint("run `giga init` in a folder that you may write to"));
            }
        }
    }
    if out.is_json() {
        return out.document(&serde_json::json!({"written": written, "kept": kept}));
    }
    for name in written {
        out.line(&format!("wrote {name}"))?;
    }
    for name in kept {
        out.note(&format!("{name} is there already: left as it is"));
    }
    out.note(
        "next: 1. say in giga.toml which engine and repositories this machine has\n      \
         2. giga up\n      \
         3. giga submit job.md --wait, in another terminal",
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(wanted: &str) -> &'static str {
        FILES.iter().find(|(name, _)| *name == wanted).unwrap().1
    }

    #[test]
    fn every_setting_in_the_sample_is_one_we_know() {
        let text = sample("giga.toml");
        let uncommented: String = text
            .lines()
            .map(|line| {
                line.strip_prefix("# ").filter(|rest| rest.contains(" = ") || rest.starts_with('[')).unwrap_or(line)
            })
            .flat_map(|line| [line, "\n"])
            .collect();

        let sparse = crate::config::of_file(text).unwrap();
        let full = crate::config::of_file(&uncommented).unwrap();
        assert_ne!(text, uncommented);
        assert_eq!(sparse.factory.limits, full.factory.limits, "the limits in the sample are the defaults");
    }

    #[test]
    fn the_sample_job_is_without_a_flaw() {
        let manifest = domain::Manifest::parse(sample("job.md"), domain::Strictness::Strict).unwrap();

        assert_eq!(manifest.warnings, []);
    }
}
