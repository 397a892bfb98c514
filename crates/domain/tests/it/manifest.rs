//! Parsing of manifests [J1].

mod bad;
mod good;
mod profiles;
mod property;
mod schema;

use domain::Finding;

fn texts(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| format!("{}: {finding}", finding.severity)).collect()
}
