//! Checks a JSON text against a rule, without building it in memory.

use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Keys, Rule};

/// The problems of a request.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) first_unknown: Option<UnknownKey>,
    pub(super) unknown_count: u64,
    pub(super) out_of_bounds: Option<String>,
}

/// An unknown key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownKey {
    /// The key with its path.
    pub(super) key: String,
    /// The known key that was probably meant.
    pub(super) meant: Option<String>,
}

impl Findings {
    /// A query parameter that the operation does not have.
    pub(super) fn unknown_parameter<'k>(&mut self, name: &str, known: impl Iterator<Item = &'k str>) {
        self.unknown(name, &Path::Root, known);
    }

    fn unknown<'k>(&mut self, key: &str, path: &Path, known: impl Iterator<Item = &'k str>) {
        self.unknown_count += 1;
        if self.first_unknown.is_none() {
            let meant = domain::suggest(key, known).map(str::to_owned);
            self.first_unknown = Some(UnknownKey { key: Path::Key(path, key).to_string(), meant });
        }
    }

    fn out_of_bounds(&mut self, path: &Path, why: impl FnOnce() -> String) {
        let place = || match path {
            Path::Root => "the body".to_owned(),
            path => path.to_string(),
        };
        self.out_of_bounds.get_or_insert_with(|| format!("{}: {}", place(), why()));
    }
}

/// Checks a whole body; `None` if it is not JSON.
pub(super) fn body(text: &[u8], rule: &Rule) -> Option<Findings> {
    let mut findings = Findings::default();
    let mut reader = serde_json::Deserializer::from_slice(text);
    let step = Step { rule, path: &Path::Root, findings: &mut findings };
    step.deserialize(&mut reader).ok()?;
    Some(findings)
}

/// Checks the value of a query parameter. A value that is not a number is left to the parser.
pub(super) fn parameter(name: &str, value: &str, rule: &Rule, findings: &mut Findings) {
    let mut step = Step { rule, path: &Path::Key(&Path::Root, name), findings };
    if rule.number.is_some()
        && let Ok(number) = value.parse()
    {
        step.number(number);
    } else if rule.chars.is_some() && !value.contains('%') {
        step.text(value);
    }
}

/// The current path in the text: formatted only for an error.
enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, key) => f.write_str(&domain::escape_for_terminal(key)),
            Self::Key(parent, key) => write!(f, "{parent}.{}", domain::escape_for_terminal(key)),
            Self::Item(parent, place) => write!(f, "{parent}[{place}]"),
        }
    }
}

/// One value in the text.
struct Step<'s> {
    rule: &'s Rule,
    path: &'s Path<'s>,
    findings: &'s mut Findings,
}

impl Step<'_> {
    fn number(&mut self, number: f64) {
        if let Some((min, max)) = self.rule.number
            && !(min..=max).contains(&number)
        {
            self.findings.out_of_bounds(self.path, || format!("expected a number from {min} to {max}, found {number}"));
        }
    }

    fn text(&mut self, text: &str) {
        let Some((min, max)) = self.rule.chars else { return };
        // Counting characters is only needed for texts near a limit.
        let is_within = (min..=max).contains(&text.len()) && min <= 1 || (min..=max).contains(&text.chars().count());
        if !is_within {
            let found = text.chars().count();
            self.findings.out_of_bounds(self.path, || format!("expected {min} to {max} characters, found {found}"));
        }
    }

    fn count(&mut self, found: usize, max: Option<usize>, what: &str) {
        if let Some(max) = max
            && found > max
        {
            self.findings.out_of_bounds(self.path, || format!("{max} {what} at most, found {found}"));
        }
    }
}

impl<'de> DeserializeSeed<'de> for Step<'_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Step<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(mut self, number: i64) -> Result<(), E> {
        self.number(number as f64);
        Ok(())
    }

    fn visit_u64<E>(mut self, number: u64) -> Result<(), E> {
        self.number(number as f64);
        Ok(())
    }

    fn visit_f64<E>(mut self, number: f64) -> Result<(), E> {
        self.number(number);
        Ok(())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        self.text(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        if self.rule.keys.is_some() && self.rule.items.is_none() {
            // serde would read the fields in order.
            self.findings.out_of_bounds(self.path, || "expected an object, found a list".to_owned());
        }
        let any = Rule::default();
        let rule = self.rule.items.as_deref().unwrap_or(&any);
        let mut count = 0;
        loop {
            let step = Step { rule, path: &Path::Item(self.path, count), findings: self.findings };
            if items.next_element_seed(step)?.is_none() {
                break;
            }
            count += 1;
        }
        self.count(count, self.rule.items_max, "items");
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let Some(keys) = &self.rule.keys else {
            while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        };
        let mut seen = SeenKeys::default();
        let mut count = 0;
        while let Some(key) = entries.next_key::<String>()? {
            count += 1;
            match keys.known.get(&key).or(keys.rest.as_ref()) {
                Some(_) if keys.is_tag(&key) => {
                    let tag: serde_json::Value = entries.next_value()?;
                    seen.tag = tag.as_str().map(str::to_owned);
                }
                Some(rule) => {
                    let step = Step { rule, path: &Path::Key(self.path, &key), findings: self.findings };
                    entries.next_value_seed(step)?;
                    if keys.variants.is_some() {
                        seen.keys.push(key);
                    }
                }
                None => {
                    entries.next_value::<IgnoredAny>()?;
                    self.findings.unknown(&key, self.path, keys.known.keys().map(String::as_str));
                }
            }
        }
        self.count(count, keys.count_max, "keys");
        seen.check(keys, self.path, self.findings);
        Ok(())
    }
}

/// The keys of a tagged union's object: they can be checked once the tag is known.
#[derive(Default)]
struct SeenKeys {
    tag: Option<String>,
    keys: Vec<String>,
}

impl SeenKeys {
    fn check(&self, keys: &Keys, path: &Path, findings: &mut Findings) {
        let Some((_, variants)) = &keys.variants else { return };
        let Some(known) = self.tag.as_ref().and_then(|tag| variants.get(tag)) else { return };
        for key in self.keys.iter().filter(|key| !known.contains(key)) {
            findings.unknown(key, path, known.iter().map(String::as_str));
        }
    }
}

impl Keys {
    fn is_tag(&self, key: &str) -> bool {
        self.variants.as_ref().is_some_and(|(tag, _)| tag == key)
    }
}
