//! The table of known keys: description, decoder and schema of each.

use serde_json::{Value as Json, json};

use crate::names::{Capability, EngineName};
use crate::review::{PERSON_CHARS_MAX, QUORUM_MAX, REVIEWERS_MAX, Review};
use crate::spec::{DepsMode, Kind, OnDepFailure, Priority};

use super::decode::Decoder;
use super::duration;
use super::tree::{Node, Value};

/// Fits one line of a list.
pub(super) const TITLE_CHARS_MAX: usize = 200;
/// The maximum length of the longest name type.
const LINE_CHARS_MAX: usize = 200;
/// A name with `@` and a version.
const PROFILE_CHARS_MAX: usize = 75;
/// More than a job needs; bounds the cost of matching factories.
const ITEMS_MAX: usize = 100;
/// More than a job's outputs need; each is matched against every file.
const ARTIFACT_GLOBS_MAX: usize = 20;
/// A job may depend on a whole batch.
const DEPS_MAX: usize = 1_000;
/// A billion dollars in millionths fits a signed 64-bit sum many times over.
const USD_MAX: f64 = 1e9;
/// Exact in JSON for every reader, including browsers.
const TOKENS_MAX: u64 = 1_000_000_000_000_000;
/// Attempts cost money: more than this is a mistake.
const ATTEMPTS_MAX: u64 = 100;

const PRIORITIES: [(&str, Priority); 4] =
    [("critical", Priority::Critical), ("high", Priority::High), ("normal", Priority::Normal), ("low", Priority::Low)];
const DEPS_MODES: [(&str, DepsMode); 2] = [("all", DepsMode::All), ("any", DepsMode::Any)];
const ON_DEP_FAILURES: [(&str, OnDepFailure); 3] =
    [("block", OnDepFailure::Block), ("fail", OnDepFailure::Fail), ("ignore", OnDepFailure::Ignore)];
const KINDS: [(&str, Kind); 2] = [("task", Kind::Task), ("composite", Kind::Composite)];

/// A known key.
pub(super) struct Field {
    pub(super) name: &'static str,
    /// The description in the schema.
    pub(super) about: &'static str,
    /// An example value in YAML. Empty for a group, whose keys have their own, and for an unsupported key.
    pub(super) example: &'static str,
    pub(super) shape: FieldShape,
}

/// How a known key is decoded.
pub(super) enum FieldShape {
    Value {
        read: fn(&mut Decoder, &Node),
        schema: fn() -> Json,
    },
    Group {
        fields: &'static [Field],
        /// Sets the defaults of a mapping that is present.
        begin: fn(&mut Decoder),
    },
    /// A specified key without effect yet. It is rejected, because the job would run without it.
    Unsupported,
}

/// All top-level keys, in the order of the specification.
pub(super) static FIELDS: &[Field] = &[
    value(
        "title",
        "One line for people. The first heading of the text, or its first line, when absent.",
        "Add dark mode",
        |form, node| form.spec.title = form.line(node, TITLE_CHARS_MAX).unwrap_or_default(),
        || line_schema(TITLE_CHARS_MAX),
    ),
    value(
        "product",
        "The product that the job belongs to. The submitter's own when absent.",
        "notes",
        |form, node| form.spec.product = form.name(node),
        || line_schema(64),
    ),
    value(
        "repo",
        "The repository to work in, by the name that factories advertise. Without one the job runs in an empty directory.",
        "acme/notes",
        |form, node| form.spec.repo = form.name(node),
        || line_schema(LINE_CHARS_MAX),
    ),
    value(
        "base",
        "The branch to start from and merge into. The repository's default when absent.",
        "main",
        |form, node| form.spec.base = form.name(node),
        || line_schema(LINE_CHARS_MAX),
    ),
    value(
        "profile",
        "The profile whose persona precedes the text, and whose defaults apply to keys that are absent here; with a version, exactly that one.",
        "ux-designer@3",
        |form, node| form.spec.profile = form.name(node),
        || line_schema(PROFILE_CHARS_MAX),
    ),
    CAPABILITIES,
    ENGINE,
    ENGINES,
    MODEL,
    MODELS,
    value(
        "priority",
        "How urgent the job is; `normal` when absent.",
        "high",
        |form, node| form.spec.priority = form.word(node, &PRIORITIES).unwrap_or_default(),
        || word_schema(&PRIORITIES),
    ),
    BUDGET_GROUP,
    value(
        "deps",
        "Jobs that must succeed first: ids, or `key:` and the idempotency key of a job.",
        "[\"key:design\", 0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a]",
        |form, node| form.spec.deps = form.set(node, DEPS_MAX, |form, item| form.dep(item, LINE_CHARS_MAX)),
        || list_schema(DEPS_MAX, &line_schema(LINE_CHARS_MAX)),
    ),
    value(
        "depsMode",
        "Whether all of `deps` are needed or any one; `all` when absent.",
        "any",
        |form, node| form.spec.deps_mode = form.word(node, &DEPS_MODES).unwrap_or_default(),
        || word_schema(&DEPS_MODES),
    ),
    value(
        "onDepFailure",
        "What a failed dependency does to this job; `block` when absent.",
        "fail",
        |form, node| form.spec.on_dep_failure = form.word(node, &ON_DEP_FAILURES).unwrap_or_default(),
        || word_schema(&ON_DEP_FAILURES),
    ),
    value(
        "kind",
        "Whether the job is a task or a composite of its children; `task` when absent.",
        "task",
        |form, node| form.spec.kind = form.word(node, &KINDS).unwrap_or_default(),
        || word_schema(&KINDS),
    ),
    value(
        "prepare",
        "Commands that run after the agent and before the commit, such as formatters and generators: a list, or a single one. Their changes are committed with the work.",
        "[npm run format]",
        |form, node| form.spec.prepare = commands(form, node),
        commands_schema,
    ),
    VERIFY,
    value(
        "artifacts",
        "Files to attach to the job after a run, as globs from the top of the repository: `*`, `?` and `**`. A commit need not hold them.",
        "[\"dist/*.zip\", \"coverage/**\"]",
        |form, node| form.spec.artifacts = form.set(node, ARTIFACT_GLOBS_MAX, Decoder::glob),
        || list_schema(ARTIFACT_GLOBS_MAX, &line_schema(LINE_CHARS_MAX)),
    ),
    value(
        "allowEmpty",
        "Whether the job may finish without changing a file: an audit, a check, a search; `false` when absent.",
        "true",
        |form, node| form.spec.allow_empty = form.boolean(node).unwrap_or_default(),
        || json!({"type": "boolean"}),
    ),
    Field {
        name: "review",
        about: "Who must approve the completed work before it can ship. The author of the job never counts.",
        example: "",
        shape: FieldShape::Group { fields: REVIEW, begin: |form| _ = review(form) },
    },
    group("retry", "How failures are retried. The fleet's policy when absent.", RETRY),
    value(
        "preemptible",
        "Whether a critical job without a seat may take this one's: the work is saved, and the job continues later; `false` when absent.",
        "true",
        |form, node| form.spec.preemptible = form.boolean(node).unwrap_or_default(),
        || json!({"type": "boolean"}),
    ),
    unsupported(
        "touches",
        "Globs of the files that the job will change: jobs that touch the same files do not run at once.",
    ),
    value(
        "tags",
        "Labels for people.",
        "[ui, theme]",
        |form, node| form.spec.tags = form.set(node, ITEMS_MAX, Decoder::name),
        || list_schema(ITEMS_MAX, &line_schema(64)),
    ),
];

/// The keys of a profile: those of a job that it can set, behind its description.
pub(super) static PROFILE_FIELDS: &[Field] = &[
    value(
        "description",
        "What the profile is for, in one line.",
        "Designs and builds user interfaces",
        // The title of a spec is its one line for people.
        |form, node| form.spec.title = form.line(node, TITLE_CHARS_MAX).unwrap_or_default(),
        || line_schema(TITLE_CHARS_MAX),
    ),
    CAPABILITIES,
    ENGINE,
    ENGINES,
    MODEL,
    MODELS,
    BUDGET_GROUP,
    VERIFY,
];

const CAPABILITIES: Field = value(
    "capabilities",
    "Capabilities that a factory must have to run the job.",
    "[os:linux, has:docker]",
    |form, node| {
        form.spec.capabilities = form.set(node, ITEMS_MAX, |form, item| form.name(item).map(Capability::canonical));
    },
    || list_schema(ITEMS_MAX, &line_schema(LINE_CHARS_MAX)),
);
const ENGINE: Field = value("engine", "The one engine that may run the job.", "claude", engine, || line_schema(64));
const ENGINES: Field = value(
    "engines",
    "Engines that may run the job, in order of preference; any when absent. Instead of `engine`.",
    "[claude, codex]",
    |form, node| form.spec.engines = form.set(node, ITEMS_MAX, Decoder::name::<EngineName>),
    || list_schema(ITEMS_MAX, &line_schema(64)),
);
const MODEL: Field = value(
    "model",
    "The model to use, for a job that names one engine. For several: `models`.",
    "opus",
    |form, node| form.spec.model = form.argument(node, LINE_CHARS_MAX),
    || line_schema(LINE_CHARS_MAX),
);
const MODELS: Field = value(
    "models",
    "The model for each engine, by the engine's name. Instead of `model`.",
    "{claude: opus, codex: gpt-5}",
    models,
    || json!({"type": "object", "maxProperties": ITEMS_MAX, "additionalProperties": line_schema(LINE_CHARS_MAX)}),
);
const VERIFY: Field = value(
    "verify",
    "Commands that must succeed before the work counts as done: a list, or a single one. They run on the committed work; their changes are not committed.",
    "[npm test, npm run lint]",
    |form, node| form.spec.verify = commands(form, node),
    commands_schema,
);
const BUDGET_GROUP: Field = group("budget", "What the job may cost. The product's own limits when absent.", BUDGET);

static BUDGET: &[Field] = &[
    value(
        "usd",
        "US dollars.",
        "2.5",
        |form, node| form.spec.budget.usd = form.amount(node, USD_MAX),
        || json!({"type": "number", "minimum": 0, "maximum": USD_MAX}),
    ),
    value(
        "wall",
        "Wall-clock time of the engine, with its unit.",
        "1h30m",
        |form, node| {
            form.spec.budget.wall_ms = form.duration(node);
            if form.spec.budget.wall_ms == Some(0) {
                form.refuse(node.line, "must be greater than zero");
            }
        },
        duration_schema,
    ),
    value(
        "tokens",
        "Input and output tokens together.",
        "200000",
        |form, node| form.spec.budget.tokens = form.whole(node, 1, TOKENS_MAX),
        || json!({"type": "integer", "minimum": 1, "maximum": TOKENS_MAX}),
    ),
];

static REVIEW: &[Field] = &[
    value(
        "quorum",
        "The number of people that must approve; 1 when absent.",
        "2",
        |form, node| {
            if let Some(quorum) = form.whole(node, 1, QUORUM_MAX.into()) {
                review(form).quorum = quorum.try_into().unwrap_or(QUORUM_MAX);
            }
        },
        || json!({"type": "integer", "minimum": 1, "maximum": QUORUM_MAX}),
    ),
    value(
        "reviewers",
        "The people whose approvals count, by the owners of their tokens; anyone but the author when absent.",
        "[ada, grace]",
        |form, node| {
            let names = form.set(node, REVIEWERS_MAX, |form, item| form.line(item, PERSON_CHARS_MAX));
            review(form).reviewers = names;
        },
        || list_schema(REVIEWERS_MAX, &line_schema(PERSON_CHARS_MAX)),
    ),
];

static RETRY: &[Field] = &[
    value(
        "max",
        "Attempts in all, the first included.",
        "3",
        |form, node| form.spec.retry.max = form.whole(node, 1, ATTEMPTS_MAX).and_then(|max| max.try_into().ok()),
        || json!({"type": "integer", "minimum": 1, "maximum": ATTEMPTS_MAX}),
    ),
    value(
        "backoff",
        "The first backoff, with its unit; it doubles with each attempt.",
        "30s",
        |form, node| form.spec.retry.backoff_ms = form.duration(node),
        duration_schema,
    ),
];

const fn value(
    name: &'static str,
    about: &'static str,
    example: &'static str,
    read: fn(&mut Decoder, &Node),
    schema: fn() -> Json,
) -> Field {
    Field { name, about, example, shape: FieldShape::Value { read, schema } }
}

const fn group(name: &'static str, about: &'static str, fields: &'static [Field]) -> Field {
    Field { name, about, example: "", shape: FieldShape::Group { fields, begin: |_| {} } }
}

const fn unsupported(name: &'static str, about: &'static str) -> Field {
    Field { name, about, example: "", shape: FieldShape::Unsupported }
}

/// The job's review; one approval of anyone as soon as the key is present.
fn review(form: &mut Decoder) -> &mut Review {
    form.spec.review.get_or_insert_with(|| Review { quorum: 1, reviewers: Vec::new() })
}

fn models(form: &mut Decoder, node: &Node) {
    let Value::Map(entries) = &node.value else {
        form.expected("a mapping of engines to models", node);
        return;
    };
    if entries.len() > ITEMS_MAX {
        form.refuse(node.line, format!("has {} engines; at most {ITEMS_MAX} are allowed", entries.len()));
        return;
    }
    for entry in entries {
        form.entry(&entry.key, |form| match entry.key.parse::<EngineName>() {
            Ok(engine) => {
                if let Some(model) = form.argument(&entry.node, LINE_CHARS_MAX) {
                    form.spec.models.insert(engine, model);
                }
            }
            Err(error) => form.refuse(entry.node.line, error.to_string()),
        });
    }
}

fn engine(form: &mut Decoder, node: &Node) {
    if matches!(node.value, Value::List(_)) {
        form.refuse(node.line, "expected a text, found a list: `engines` takes a list");
    } else {
        form.spec.engines = form.name(node).into_iter().collect();
    }
}

fn commands(form: &mut Decoder, node: &Node) -> Vec<String> {
    match node.value {
        Value::List(_) => form.list(node, ITEMS_MAX, |form, item| form.command(item, "a command")),
        _ => form.command(node, "a command or a list of commands").into_iter().collect(),
    }
}

fn commands_schema() -> Json {
    let command = json!({"type": "string", "minLength": 1});
    json!({"oneOf": [command, list_schema(ITEMS_MAX, &command)]})
}

fn line_schema(chars_max: usize) -> Json {
    json!({"type": "string", "minLength": 1, "maxLength": chars_max})
}

fn list_schema(items_max: usize, item: &Json) -> Json {
    json!({"type": "array", "maxItems": items_max, "items": item})
}

fn word_schema<T>(words: &[(&str, T)]) -> Json {
    json!({"enum": words.iter().map(|(word, _)| *word).collect::<Vec<_>>()})
}

fn duration_schema() -> Json {
    json!({"type": "string", "pattern": duration::PATTERN})
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    fn agree<T: Serialize>(words: &[(&str, T)]) {
        for (word, value) in words {
            assert_eq!(serde_json::to_value(value).unwrap(), json!(word));
        }
    }

    #[test]
    fn manifest_words_equal_json_words() {
        agree(&PRIORITIES);
        agree(&DEPS_MODES);
        agree(&ON_DEP_FAILURES);
        agree(&KINDS);
        assert_eq!(PRIORITIES.map(|(_, priority)| priority), Priority::ALL);
    }
}
