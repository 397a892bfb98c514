//! Reads a plan: one Markdown file that becomes a tree of jobs.
//!
//! The front matter is the root's manifest, and what its keys say about runs holds for every job below. Each `##`
//! heading is a job, each `###` heading a job below it, and so on. A fenced block `job` at the start of a section has
//! keys of its own; `after` names sections that have to ship first.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};

use crate::job_tree::TREE_JOBS_MAX;
use crate::manifest::{Finding, Manifest, Strictness};
use crate::names::{counted, escape_for_terminal};

/// Sections of a plan; a tree has no more jobs.
const SECTIONS_MAX: usize = TREE_JOBS_MAX - 1;

/// Size of a plan, as of a manifest.
const PLAN_BYTES_MAX: usize = 1024 * 1024;

/// Size of all manifests of a plan together: each repeats the keys that it inherits.
const MANIFESTS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Dependencies of all jobs of a plan together, as of a batch.
const AFTER_MAX: usize = 10_000;

/// Length of a key's part for one section.
const SLUG_CHARS_MAX: usize = 40;

/// Keys of the root that hold for the jobs below too.
const INHERITED: [&str; 15] = [
    "artifacts",
    "product",
    "repo",
    "base",
    "capabilities",
    "engine",
    "engines",
    "model",
    "models",
    "priority",
    "retry",
    "budget",
    "prepare",
    "verify",
    "review",
];

/// Keys about runs: a composite has none.
const OF_RUNS: [&str; 6] = ["artifacts", "budget", "deps", "prepare", "verify", "review"];

/// A plan whose manifests are valid.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// The jobs, each after its parent; the root is first.
    pub jobs: Vec<PlannedJob>,
    /// Findings that do not reject the plan, each at the heading of its job.
    pub warnings: Vec<Finding>,
}

/// A job of a plan.
#[derive(Debug, PartialEq, Eq)]
pub struct PlannedJob {
    /// The title.
    pub title: String,
    /// The line of its heading.
    pub line: u32,
    /// The idempotency key.
    pub key: String,
    /// The index of its parent; `None` for the root.
    pub parent: Option<usize>,
    /// The indexes of the jobs that it runs after, by its own `after` or that of a section around it.
    pub after: Vec<usize>,
    /// Whether it has no run of its own.
    pub is_composite: bool,
    /// The manifest.
    pub manifest: String,
}

/// Why a plan cannot be read.
#[derive(Debug, PartialEq, Eq)]
struct PlanError {
    line: u32,
    why: String,
}

impl Plan {
    /// Parses a plan and checks the manifests of its jobs. An error lists every finding of them, in reading order.
    ///
    /// `name` becomes the beginning of every idempotency key; without one, the content does.
    pub fn parse(text: &str, name: Option<&str>, strictness: Strictness) -> Result<Self, Vec<Finding>> {
        let jobs = jobs(text, name).map_err(|error| vec![Finding::error(error.line, None, error.why)])?;
        let (mut findings, mut is_bad) = (Vec::new(), false);
        for job in &jobs {
            let (found, is_refused) = match Manifest::parse(&job.manifest, strictness) {
                Ok(manifest) => (manifest.warnings, false),
                Err(findings) => (findings, true),
            };
            is_bad |= is_refused;
            let label = escape_for_terminal(&job.title);
            findings.extend(found.into_iter().map(|finding| Finding {
                line: job.line,
                message: format!("{label}: {}", finding.message),
                ..finding
            }));
        }
        if is_bad { Err(findings) } else { Ok(Self { jobs, warnings: findings }) }
    }

    /// How many jobs there are: `3 tasks and 2 composites`.
    pub fn counts(&self) -> String {
        let composites = self.jobs.iter().filter(|job| job.is_composite).count();
        let tasks = counted(self.jobs.len() - composites, "task");
        if composites == 0 { tasks } else { format!("{tasks} and {}", counted(composites, "composite")) }
    }
}

/// A section of the file.
struct Section {
    line: u32,
    /// The number of `#`; 1 for the root.
    level: usize,
    title: String,
    entries: Entries,
    text: String,
}

/// The top-level keys of a block of YAML, each with its lines.
#[derive(Debug, Default, Clone)]
struct Entries(Vec<(String, String)>);

impl Entries {
    fn parse(yaml: &str) -> Self {
        let mut entries: Vec<(String, String)> = Vec::new();
        for line in yaml.lines() {
            let is_key = line.starts_with(|first: char| first.is_alphanumeric());
            match (line.split_once(':'), entries.last_mut()) {
                (Some((key, _)), _) if is_key => entries.push((key.trim().to_owned(), format!("{line}\n"))),
                (_, Some((_, lines))) => lines.push_str(&format!("{line}\n")),
                (_, None) if line.trim().is_empty() || line.starts_with('#') => {}
                // Not a key: the manifest's own parser says what is wrong with it.
                (_, None) => entries.push((String::new(), format!("{line}\n"))),
            }
        }
        Self(entries)
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, lines)| lines.as_str())
    }

    /// The value of a key that is one line.
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(|lines| lines.split_once(':')).map(|(_, value)| value.trim().trim_matches(['"', '\'']))
    }

    /// The names in `after`: one, or several in brackets.
    fn after(&self) -> Vec<String> {
        let Some(value) = self.get("after").and_then(|lines| lines.split_once(':')).map(|(_, value)| value) else {
            return Vec::new();
        };
        let names = value.split([',', '\n', '[', ']']);
        let names = names.map(|name| name.trim().trim_start_matches("- ").trim_matches(['"', '\'']).trim());
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }
}

fn jobs(text: &str, name: Option<&str>) -> Result<Vec<PlannedJob>, PlanError> {
    if text.len() > PLAN_BYTES_MAX {
        let why = format!("the plan has {} bytes; at most {PLAN_BYTES_MAX} are allowed", text.len());
        return Err(PlanError { line: 1, why });
    }
    let sections = sections(text)?;
    let name = name.map_or_else(|| digest(text), str::to_owned);
    let parents = parents(&sections)?;
    let has_children = |at: usize| parents.contains(&Some(at));
    let keys = keys(&sections, &name);
    let composite: Vec<bool> = (0..sections.len())
        .map(|at| match sections[at].entries.value("kind") {
            Some(kind) => kind == "composite",
            None => has_children(at),
        })
        .collect();
    let mut after: Vec<Vec<usize>> = Vec::with_capacity(sections.len());
    let (places, mut links) = (places(&sections), 0);
    for (at, section) in sections.iter().enumerate() {
        let mut found = parents[at].map(|parent| after[parent].clone()).unwrap_or_default();
        for wanted in section.entries.after() {
            let place = *places.get(&slug(&wanted)).ok_or_else(|| PlanError {
                line: section.line,
                why: format!("`after` names `{wanted}`, which is no heading of this plan"),
            })?;
            if !found.contains(&place) {
                found.push(place);
            }
        }
        links += found.len();
        if links > AFTER_MAX {
            let why =
                format!("the jobs of a plan have {AFTER_MAX} dependencies at most, by all their `after` together");
            return Err(PlanError { line: section.line, why });
        }
        after.push(found);
    }
    check_cycles(&sections, &parents, &after)?;
    let root = &sections[0].entries;
    let mut bytes = 0;
    let jobs = sections.iter().enumerate().map(|(at, section)| {
        let mut front = format!("title: {}\n", quoted(&section.title));
        if composite[at] {
            front.push_str("kind: composite\n");
        }
        let mut own = section.entries.clone();
        if at > 0 {
            let inherited = root.0.iter().filter(|(key, _)| INHERITED.contains(&key.as_str()));
            let inherited: Vec<_> = inherited.filter(|(key, _)| own.get(key).is_none()).cloned().collect();
            own.0.extend(inherited);
        }
        let skipped = |key: &str| {
            ["title", "kind", "after"].contains(&key)
                || composite[at] && at == 0 && OF_RUNS.contains(&key)
                || composite[at] && at > 0 && OF_RUNS.contains(&key) && section.entries.get(key).is_none()
        };
        for (_, lines) in own.0.iter().filter(|(key, _)| !skipped(key)) {
            front.push_str(lines);
        }
        if !composite[at] && !after[at].is_empty() {
            let deps: Vec<String> = after[at].iter().map(|dep| quoted(&format!("key:{}", keys[*dep]))).collect();
            front.push_str(&format!("deps: [{}]\n", deps.join(", ")));
        }
        let manifest = format!("---\n{front}---\n{}", section.text);
        bytes += manifest.len();
        if bytes > MANIFESTS_BYTES_MAX {
            let why = format!(
                "the manifests of the jobs have more than {MANIFESTS_BYTES_MAX} bytes together: shorten the front matter, \
                 which every job repeats"
            );
            return Err(PlanError { line: section.line, why });
        }
        Ok(PlannedJob {
            title: section.title.clone(),
            line: section.line,
            key: keys[at].clone(),
            parent: parents[at],
            after: after[at].clone(),
            is_composite: composite[at],
            manifest,
        })
    });
    jobs.collect()
}

fn sections(text: &str) -> Result<Vec<Section>, PlanError> {
    let (front, body, lines_before) = front_matter(text)?;
    let entries = Entries::parse(front);
    let title = entries.value("title").unwrap_or_default().to_owned();
    let mut sections = vec![Section { line: 1, level: 1, title, entries, text: String::new() }];
    let mut fence: Option<String> = None;
    let mut block: Option<String> = None;
    for (at, line) in body.lines().enumerate() {
        let number = u32::try_from(lines_before + at + 1).unwrap_or(u32::MAX);
        let last = sections.len() - 1;
        let marks = line.trim_start();
        let opening = ["```", "~~~"].iter().find(|fence| marks.starts_with(**fence));
        match (&fence, opening) {
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, Some(mark)) => {
                fence = Some((*mark).to_owned());
                let is_first = sections[last].text.trim().is_empty() && last > 0;
                if is_first && marks.trim_start_matches(mark).trim() == "job" {
                    block = Some(String::new());
                    continue;
                }
            }
            (None, None) => {
                if let Some((level, title)) = heading(line) {
                    if level == 1 {
                        let root = &mut sections[0];
                        if last > 0 || !root.title.is_empty() && root.entries.get("title").is_none() {
                            let why = "a plan has one `#` heading, before all others".to_owned();
                            return Err(PlanError { line: number, why });
                        }
                        if root.title.is_empty() {
                            root.title = title.to_owned();
                        }
                        continue;
                    }
                    if sections.len() > SECTIONS_MAX {
                        let why = format!("a plan has {SECTIONS_MAX} headings at most");
                        return Err(PlanError { line: number, why });
                    }
                    let (title, entries) = (title.to_owned(), Entries::default());
                    sections.push(Section { line: number, level, title, entries, text: String::new() });
                    continue;
                }
            }
            _ => {}
        }
        let section = &mut sections[last];
        match &mut block {
            Some(_) if fence.is_none() => {
                section.entries = Entries::parse(&block.take().unwrap_or_default());
            }
            Some(block) => block.push_str(&format!("{line}\n")),
            None => section.text.push_str(&format!("{line}\n")),
        }
    }
    match sections.len() {
        1 => Err(PlanError { line: 1, why: "a plan has a `##` heading for each job".to_owned() }),
        _ if sections[0].title.is_empty() => Err(PlanError {
            line: 1,
            why: "a plan has a title: a `#` heading, or `title` in its front matter".to_owned(),
        }),
        _ => Ok(sections),
    }
}

/// The YAML, the text after it, and the number of lines before that.
fn front_matter(text: &str) -> Result<(&str, &str, usize), PlanError> {
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else {
        return Ok(("", text, 0));
    };
    let mut end = 0;
    for (at, line) in rest.split_inclusive('\n').enumerate() {
        if line.trim_end() == "---" {
            return Ok((&rest[..end], &rest[end + line.len()..], at + 2));
        }
        end += line.len();
    }
    Err(PlanError {
        line: 1,
        why: "the front matter that opens here is never closed: end it with a line `---`".to_owned(),
    })
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = line.get(level..)?.strip_prefix(' ')?.trim().trim_end_matches('#').trim_end();
    (1..=6).contains(&level).then_some((level, title)).filter(|(_, title)| !title.is_empty())
}

/// The parent of each section: the last one before it with a smaller level.
fn parents(sections: &[Section]) -> Result<Vec<Option<usize>>, PlanError> {
    let mut open: Vec<usize> = Vec::new();
    let mut parents = Vec::with_capacity(sections.len());
    for (at, section) in sections.iter().enumerate() {
        while open.last().is_some_and(|last| sections[*last].level >= section.level) {
            open.pop();
        }
        if let Some(parent) = open.last()
            && section.level > sections[*parent].level + 1
        {
            let (level, above) = ("#".repeat(section.level), "#".repeat(section.level - 1));
            return Err(PlanError {
                line: section.line,
                why: format!("a `{level}` heading needs a `{above}` above it"),
            });
        }
        parents.push(open.last().copied());
        open.push(at);
    }
    Ok(parents)
}

fn keys(sections: &[Section], name: &str) -> Vec<String> {
    let mut used: BTreeMap<String, u32> = BTreeMap::new();
    let mut keys = Vec::with_capacity(sections.len());
    for (at, section) in sections.iter().enumerate() {
        let slug = if at == 0 { "plan".to_owned() } else { slug(&section.title) };
        let same = used.entry(slug.clone()).or_default();
        *same += 1;
        keys.push(match *same {
            1 => format!("{name}/{slug}"),
            same => format!("{name}/{slug}~{same}"),
        });
    }
    keys
}

/// The sections by their titles; the first of several equal ones.
fn places(sections: &[Section]) -> HashMap<String, usize> {
    (1..sections.len()).rev().map(|at| (slug(&sections[at].title), at)).collect()
}

/// Fails if a job would wait for itself: a parent waits for its children, a job for those in its `after`.
fn check_cycles(sections: &[Section], parents: &[Option<usize>], after: &[Vec<usize>]) -> Result<(), PlanError> {
    let mut awaited: Vec<usize> = after.iter().map(Vec::len).collect();
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); sections.len()];
    for (at, deps) in after.iter().enumerate() {
        deps.iter().for_each(|dep| waiting[*dep].push(at));
        if let Some(parent) = parents[at] {
            waiting[at].push(parent);
            awaited[parent] += 1;
        }
    }
    let mut ready: Vec<usize> = (0..sections.len()).filter(|at| awaited[*at] == 0).collect();
    while let Some(at) = ready.pop() {
        for next in waiting[at].iter().copied() {
            awaited[next] -= 1;
            if awaited[next] == 0 {
                ready.push(next);
            }
        }
    }
    match (0..sections.len()).rev().find(|at| awaited[*at] > 0) {
        None => Ok(()),
        Some(at) => {
            let why = format!("`{}` would wait for itself: its `after` leads back to it", sections[at].title);
            Err(PlanError { line: sections[at].line, why })
        }
    }
}

fn slug(title: &str) -> String {
    let lower = title.to_lowercase();
    let words = lower.split(|one: char| !one.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").chars().take(SLUG_CHARS_MAX).collect()
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

fn digest(text: &str) -> String {
    let bytes = Sha256::digest(text.as_bytes());
    format!("plan-{}", bytes.iter().take(6).map(|byte| format!("{byte:02x}")).collect::<String>())
}

#[cfg(test)]
mod tests {
    use crate::spec::Priority;

    use super::*;

    fn parse(text: &str, name: Option<&str>) -> Result<Vec<PlannedJob>, Vec<Finding>> {
        Plan::parse(text, name, Strictness::Lenient).map(|plan| plan.jobs)
    }

    const PLAN: &str = "\
---
repo: notes
verify: [make test]
---
# Release 2

All of it.

## Docs

Write them.

```sh
## not a heading
```

## Code
```job
after: Docs
```
### Parser
Parse.
### Printer
```job
priority: high
after: [Parser]
```
Print.
";

    #[test]
    fn a_job_that_would_wait_for_itself_is_an_error_at_its_heading() {
        let cycle = |text: &str| {
            let findings = parse(&format!("# Root\n{text}"), None).unwrap_err();
            (findings[0].line, findings[0].message.contains("would wait for itself"))
        };

        assert_eq!(cycle("## A\n```job\nafter: B\n```\n## B\n```job\nafter: A\n```\n"), (6, true));
        assert_eq!(cycle("## A\n```job\nafter: A\n```\n"), (2, true));
        assert_eq!(cycle("## A\n### B\n```job\nafter: A\n```\n"), (3, true));
    }

    #[test]
    fn the_dependencies_of_a_plan_are_bounded() {
        let names: Vec<String> = (0..200).map(|n| format!("Job {n}")).collect();
        let sections = names.iter().enumerate();
        let text: String = sections
            .map(|(at, name)| format!("## {name}\n```job\nafter: [{}]\n```\n", names[..at].join(", ")))
            .collect();

        let findings = parse(&format!("# Root\n{text}"), None).unwrap_err();

        assert!(findings[0].message.contains("10000 dependencies at most"), "{findings:?}");
    }

    #[test]
    fn artifacts_of_the_root_are_those_of_every_task() {
        let jobs = parse("---\nartifacts: [report.html]\n---\n# Root\n## A\n", None).unwrap();

        assert!(!jobs[0].manifest.contains("artifacts") && jobs[1].manifest.contains("artifacts: [report.html]"));
    }

    #[test]
    fn a_plan_is_a_tree_of_valid_manifests() {
        let jobs = parse(PLAN, Some("r2")).unwrap();

        let shape: Vec<_> = jobs.iter().map(|job| (job.title.as_str(), job.parent, job.is_composite)).collect();
        assert_eq!(
            shape,
            [
                ("Release 2", None, true),
                ("Docs", Some(0), false),
                ("Code", Some(0), true),
                ("Parser", Some(2), false),
                ("Printer", Some(2), false),
            ]
        );
        assert_eq!(jobs[4].key, "r2/printer");
        assert!(jobs[1].manifest.contains("## not a heading"));
        let specs: Vec<_> =
            jobs.iter().map(|job| Manifest::parse(&job.manifest, Strictness::Strict).unwrap().spec).collect();
        assert_eq!(
            specs[4].deps.iter().cloned().map(String::from).collect::<Vec<_>>(),
            ["key:r2/docs", "key:r2/parser"]
        );
        assert_eq!((specs[4].priority, specs[4].verify.len()), (Priority::High, 1));
        assert!(specs[0].verify.is_empty() && specs[2].verify.is_empty() && specs[2].deps.is_empty());
        assert!(specs.iter().all(|spec| spec.repo.is_some()));
    }

    #[test]
    fn the_same_plan_has_the_same_keys() {
        let keys = |text: &str| parse(text, None).unwrap().into_iter().map(|job| job.key).collect::<Vec<_>>();

        assert_eq!(keys(PLAN), keys(PLAN));
        assert_ne!(keys(PLAN)[0], keys(&PLAN.replace("Parse.", "Parse it."))[0]);
        assert_eq!(keys("# A\n## B\nx\n## B\ny\n")[2].split_once('/').unwrap().1, "b~2");
    }

    #[test]
    fn a_plan_that_is_no_tree_is_rejected_with_its_line() {
        let why = |text: &str| parse(text, None).map(drop).map_err(|findings| findings[0].to_string()).unwrap_err();

        assert_eq!(why("# Alone\n"), "line 1: a plan has a `##` heading for each job");
        assert_eq!(why("# A\n## B\n#### C\n"), "line 3: a `####` heading needs a `###` above it");
        assert_eq!(why("# A\n## B\n# C\n"), "line 3: a plan has one `#` heading, before all others");
        assert!(why("# A\n## B\n```job\nafter: [Nowhere]\n```\n").starts_with("line 2: `after` names `Nowhere`"));
        assert!(why("---\nrepo: x\n").contains("never closed"));
    }

    // [J1]
    #[test]
    fn a_finding_names_the_heading_of_its_job() {
        let plan = "# A\n## B\n```job\nverify: 7\n```\n## C\n```job\npriorty: low\n```\n";

        let findings = Plan::parse(plan, None, Strictness::Lenient).unwrap_err();

        let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "line 2, verify: B: expected a command or a list of commands, found the number 7: quote it if it is a command",
                "line 6, priorty: C: unknown key; did you mean `priority`?",
            ]
        );
    }

    #[test]
    fn the_manifests_of_a_plan_are_bounded_together() {
        let front = "x".repeat(60_000);
        let sections: String = (0..200).map(|n| format!("## {n}\n")).collect();
        let plan = format!("---\nverify: {front}\n---\n# All\n{sections}");

        let findings = Plan::parse(&plan, None, Strictness::Lenient).unwrap_err();

        assert!(findings[0].message.contains("8388608 bytes together"), "{findings:?}");
    }
}
