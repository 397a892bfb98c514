//! Names of streams, subjects and consumers.

use domain::FactoryId;

/// The stream of dispatches.
pub(super) const DISPATCH_STREAM: &str = "fleet-dispatch";

/// The stream of dead letters.
pub(super) const DEAD_LETTER_STREAM: &str = "fleet-dispatch-dlq";

/// The subjects of all dispatches.
pub(super) const DISPATCH_SUBJECTS: &str = "fleet.dispatch.*";

/// The subjects of all dead letters.
pub(super) const DEAD_LETTER_SUBJECTS: &str = "fleet.dead-letter.*";

/// The subject of a factory's dispatches.
pub(super) fn dispatch_subject(factory: &FactoryId) -> String {
    format!("fleet.dispatch.{}", escaped(factory))
}

/// The subject of a factory's dead letters.
pub(super) fn dead_letter_subject(factory: &FactoryId) -> String {
    format!("fleet.dead-letter.{}", escaped(factory))
}

/// The name of a factory's consumer.
pub(super) fn consumer_name(factory: &FactoryId) -> String {
    format!("f_{}", escaped(factory))
}

/// The factory of a subject.
pub(super) fn factory_of(subject: &str) -> Option<FactoryId> {
    let token = subject.strip_prefix("fleet.dispatch.")?;
    token.replace("=2e", ".").parse().ok()
}

/// A name as one token: a point would separate two, and be forbidden in the names of consumers. No other character of
/// a factory's name has a meaning, and `=` is in none.
fn escaped(factory: &FactoryId) -> String {
    factory.as_str().replace('.', "=2e")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factory_is_found_by_its_subject() {
        for name in ["east", "east.2", "mac-1_b.", "E"] {
            let factory: FactoryId = name.parse().unwrap();

            assert_eq!(factory_of(&dispatch_subject(&factory)), Some(factory.clone()));
            assert!(!consumer_name(&factory).contains('.'), "{name}");
            assert_eq!(dispatch_subject(&factory).matches('.').count(), 2, "{name}");
        }
        assert_eq!(factory_of("fleet.dead-letter.east"), None);
    }
}
