//! Profiles of a folder queue: `profiles/NAME.md` [J2].

use super::folder::Folder;

const TERSE: &str = "---\ntitle: Some work\nrepo: work\nprofile: terse\n---\nDo it.\n";

// [J2] [F8]
#[test]
fn a_changed_profile_file_is_a_new_version_for_the_next_job() {
    let mut folder = Folder::new();
    std::fs::create_dir(folder.path("queue/profiles")).unwrap();
    folder.write("profiles/terse.md", "---\nverify: 'true'\n---\nYou are terse.\n");
    folder.write("profiles/odd.md", "---\nrepo: x\n---\n");
    folder.start_with(&[]);
    folder.drop_in("a.md", TERSE);
    folder.until_in("testing", "a.md");

    folder.write("profiles/terse.md", "You are very terse.\n");
    folder.drop_in("b.md", TERSE);
    folder.until_in("testing", "b.md");
    folder.drop_in("c.md", &TERSE.replace("terse", "terze"));
    folder.until_in("failed", "c.md");

    let prompts = std::fs::read_to_string(folder.path("prompts")).unwrap();
    assert_eq!(prompts, "You are terse.\nYou are very terse.\n", "the persona precedes the text");
    let shown: serde_json::Value =
        serde_json::from_str(&folder.giga(&["profile", "show", "terse", "--json"]).stdout).unwrap();
    assert_eq!((&shown["version"], shown["versions"].as_array().map(Vec::len)), (&2.into(), Some(2)));
    let log = folder.log();
    assert!(log.contains("did you mean `terse`?"), "{log}");
    assert!(log.contains("odd.md is not a profile: "), "{log}");
    folder.end(rustix::process::Signal::TERM);
}
