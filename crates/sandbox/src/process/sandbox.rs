//! What the programs of a factory cannot reach, although they run under its own account [T8].
//!
//! The kernel lets a thread give up rights for itself and its children, on Linux by Landlock. Such rights are granted
//! by directory and can only be added on the way down: to hide one directory, every other one has to be named. So a
//! sandbox is stored as a few marks, and expanded into the long list right before a program starts.

#[cfg(target_os = "linux")]
mod landlock;
#[cfg(not(target_os = "linux"))]
mod nothing;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use tokio::process::{Child, Command};

#[cfg(target_os = "linux")]
use self::landlock as kernel;
#[cfg(not(target_os = "linux"))]
use self::nothing as kernel;

/// Whether the kernel protects the factory's own files from agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// If the kernel supports it.
    #[default]
    Auto,
    /// A factory without it does not start.
    Required,
    /// Not at all.
    Off,
}

/// The protection of the factory's own files, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxSummary {
    /// The kernel, by this mechanism.
    Kernel(SandboxBackend),
    /// None: why, and the remedy.
    None(String),
}

/// The kernel mechanism that protects the factory's own files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxBackend {
    /// Its name and version.
    pub name: String,
    /// What it should restrict and does not, and the remedy. A configuration that requires a sandbox rejects it.
    pub gap: Option<String>,
}

/// The access of a program below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathAccess {
    /// None.
    Nothing,
    /// Read and execute.
    Read,
    /// Read, execute and write.
    Everything,
}

/// The access of a program. Without marks, everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    marks: BTreeMap<PathBuf, PathAccess>,
    /// The targets of marks when they were made. Those with an entry apply only while they still lead there: a program
    /// that replaces an open directory by a link opens nothing else by it.
    places: BTreeMap<PathBuf, PathBuf>,
}

impl SandboxMode {
    /// The effective setting on this machine. Tries it, so that a container that forbids it is noticed now.
    pub fn in_force(self) -> SandboxSummary {
        match self {
            Self::Off => SandboxSummary::None("`confine` is off".to_owned()),
            Self::Auto | Self::Required => match kernel::try_out() {
                Ok(SandboxBackend { gap: Some(gap), .. }) if self == Self::Required => SandboxSummary::None(gap),
                Ok(means) => SandboxSummary::Kernel(means),
                Err(why) => SandboxSummary::None(why),
            },
        }
    }
}

impl FromStr for SandboxMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "required" => Ok(Self::Required),
            "off" => Ok(Self::Off),
            other => Err(format!("`{}` is none of `auto`, `required` and `off`", domain::escape_for_terminal(other))),
        }
    }
}

impl std::fmt::Display for SandboxMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Required => "required",
            Self::Off => "off",
        })
    }
}

impl std::fmt::Display for SandboxBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl PathAccess {
    const ALL: [Self; 3] = [Self::Nothing, Self::Read, Self::Everything];

    /// The guard's option names.
    fn option(self) -> &'static str {
        match self {
            Self::Nothing => "--reach-nothing-of",
            Self::Read => "--only-read",
            Self::Everything => "--reach-all-of",
        }
    }
}

impl Sandbox {
    /// The same with one more mark, which applies to everything below it that has no mark of its own. The working
    /// directory may differ when the mark is resolved.
    #[must_use]
    pub fn with(mut self, path: impl Into<PathBuf>, reach: PathAccess) -> Self {
        let path = path.into();
        let place = resolved(&std::path::absolute(&path).unwrap_or_else(|_| path.clone()));
        self.mark(path, reach, place);
        self
    }

    /// The same with a mark that [`Sandbox::options`] returned. It contains no links unless one was made since. Two
    /// names of one directory become one mark, of which the narrower applies.
    #[must_use]
    pub fn told(mut self, path: PathBuf, reach: PathAccess) -> Self {
        let reach = self.marks.get(&path).map_or(reach, |other| reach.min(*other));
        self.mark(path.clone(), reach, path);
        self
    }

    fn mark(&mut self, path: PathBuf, reach: PathAccess, place: PathBuf) {
        let path = std::path::absolute(&path).unwrap_or(path);
        match reach {
            // The target of a name when a program starts is hidden: secrets are replaced by way of links.
            PathAccess::Nothing => self.places.remove(&path),
            PathAccess::Read | PathAccess::Everything => self.places.insert(path.clone(), place),
        };
        self.marks.insert(path, reach);
    }

    /// The same, with at most `reach` at a path, whatever applies around it.
    #[must_use]
    pub fn at_most(self, path: &Path, reach: PathAccess) -> Self {
        if self.reach_at(path) > reach { self.with(path, reach) } else { self }
    }

    /// The same, with at least `reach` at a path, whatever applies around it.
    #[must_use]
    pub fn at_least(self, path: &Path, reach: PathAccess) -> Self {
        if self.reach_at(path) < reach { self.with(path, reach) } else { self }
    }

    /// The same without the mark at a path: the mark around it applies there.
    #[must_use]
    pub fn without(mut self, path: &Path) -> Self {
        let path = resolved(path);
        self.marks.retain(|marked, _| resolved(marked) != path);
        self
    }

    /// The same without a path and all that is below it, marked or not.
    #[must_use]
    pub fn hiding(mut self, path: &Path) -> Self {
        let hidden = resolved(path);
        self.marks.retain(|marked, _| !resolved(marked).starts_with(&hidden));
        self.with(path, PathAccess::Nothing)
    }

    /// The same, for as long as no link replaces the path: otherwise the author of that link would choose what is
    /// hidden.
    #[must_use]
    pub fn hiding_in_place(mut self, path: &Path) -> Self {
        let path = resolved(path);
        self = self.hiding(&path);
        self.places.insert(path.clone(), path);
        self
    }

    /// The access of a program at a path.
    pub fn reach_at(&self, path: &Path) -> PathAccess {
        let marks = self.resolved();
        let mark = resolved(path).ancestors().find_map(|above| marks.get(above).copied());
        mark.unwrap_or(PathAccess::Everything)
    }

    /// Whether a program cannot connect to a socket that it cannot write to. Older kernels allow it.
    pub fn keeps_from_sockets() -> bool {
        kernel::keeps_from_sockets()
    }

    /// Whether a program sees a directory and may create nothing in it, because something below is hidden: there the
    /// kernel only allows the entries that exist when it starts.
    pub fn narrows(&self, folder: &Path) -> bool {
        let folder = resolved(folder);
        self.resolved()
            .iter()
            .any(|(path, reach)| *reach < PathAccess::Everything && *path != folder && path.starts_with(&folder))
    }

    /// The guard's options for this sandbox.
    pub fn options(&self) -> impl Iterator<Item = OsString> {
        let told = self.current().map(|(path, reach)| (self.places.get(path).unwrap_or(path), reach));
        told.flat_map(|(path, reach)| [reach.option().into(), path.clone().into_os_string()])
    }

    /// The mark of a guard's option.
    pub(crate) fn reach_of(option: &OsStr) -> Option<PathAccess> {
        PathAccess::ALL.into_iter().find(|reach| option == reach.option())
    }

    /// Starts a program inside. Only a thread enters, and the program with it: this process stays outside, out of
    /// reach.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let runtime = tokio::runtime::Handle::current();
        let marks = self.resolved();
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let _runtime = runtime.enter();
                kernel::go_inside(marks)?;
                command.spawn()
            });
            inside
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread that goes inside the sandbox has failed")))
        })
    }

    /// The marks whose target is unchanged.
    fn current(&self) -> impl Iterator<Item = (&PathBuf, &PathAccess)> {
        let is_in_place = |path: &PathBuf| self.places.get(path).is_none_or(|place| resolved(path) == *place);
        self.marks.iter().filter(move |(path, _)| is_in_place(path))
    }

    /// The marks by their resolved paths. Where two meet, the narrower one applies.
    fn resolved(&self) -> BTreeMap<PathBuf, PathAccess> {
        let mut marks: BTreeMap<PathBuf, PathAccess> = BTreeMap::new();
        for (path, reach) in self.current() {
            let path = resolved(path);
            let reach = marks.get(&path).map_or(*reach, |other| *reach.min(other));
            marks.insert(path, reach);
        }
        marks
    }
}

/// A path without links in it, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match there {
        Some((above, real)) => match path.strip_prefix(above) {
            Ok(rest) if rest.as_os_str().is_empty() => real,
            Ok(rest) => real.join(rest),
            Err(_) => real,
        },
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [T8]
    #[test]
    fn a_sandbox_resolves_links_and_the_narrower_rule_applies() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("real")).unwrap();
        std::os::unix::fs::symlink(top.join("real"), top.join("link")).unwrap();

        let sandbox = Sandbox::default()
            .with(top.join("link"), PathAccess::Nothing)
            .with(top.join("real"), PathAccess::Everything)
            .with(top.join("link/not/there"), PathAccess::Read);

        let expected = [(top.join("real"), PathAccess::Nothing), (top.join("real/not/there"), PathAccess::Read)];
        assert_eq!(sandbox.resolved(), BTreeMap::from(expected));
    }

    #[test]
    fn a_link_that_takes_the_place_of_a_hidden_folder_hides_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let login = top.join("login");
        std::fs::create_dir_all(top.join("programs")).unwrap();
        std::fs::create_dir(&login).unwrap();
        let sandbox = Sandbox::default().hiding_in_place(&login);
        assert_eq!(sandbox.reach_at(&login), PathAccess::Nothing);

        std::fs::remove_dir(&login).unwrap();
        std::os::unix::fs::symlink(top.join("programs"), &login).unwrap();

        assert_eq!(sandbox.reach_at(&top.join("programs")), PathAccess::Everything);
        assert_eq!(sandbox.options().count(), 0);
    }

    // [T8]
    #[test]
    fn a_link_that_takes_the_place_of_an_open_folder_opens_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let (open, keys) = (top.join("open"), top.join("state/keys"));
        std::fs::create_dir_all(&keys).unwrap();
        std::fs::create_dir(&open).unwrap();
        let sandbox =
            Sandbox::default().with(top.join("state"), PathAccess::Nothing).with(open.clone(), PathAccess::Everything);
        let told = Sandbox::default().told(open.clone(), PathAccess::Everything);
        assert_eq!(sandbox.options().count(), 4);

        std::fs::remove_dir(&open).unwrap();
        std::os::unix::fs::symlink(&keys, &open).unwrap();

        assert_eq!(sandbox.reach_at(&keys), PathAccess::Nothing);
        assert_eq!((sandbox.options().count(), told.options().count()), (2, 0));
    }

    #[test]
    fn of_two_names_of_one_folder_the_narrower_mark_is_told() {
        let told = Sandbox::default()
            .told("/srv/x".into(), PathAccess::Read)
            .told("/srv/x".into(), PathAccess::Everything)
            .told("/srv/y".into(), PathAccess::Nothing)
            .told("/srv/y".into(), PathAccess::Read);

        let reached = ["/srv/x", "/srv/y"].map(|path| told.reach_at(Path::new(path)));

        assert_eq!(reached, [PathAccess::Read, PathAccess::Nothing]);
    }

    // [T8]
    #[test]
    fn a_mark_means_the_same_wherever_it_is_read() {
        let told: Vec<OsString> = Sandbox::default().with("giga.toml", PathAccess::Nothing).options().collect();

        let here = std::env::current_dir().unwrap().join("giga.toml").into_os_string();
        assert_eq!(told, [OsString::from("--reach-nothing-of"), here]);
    }

    // [T8]
    #[test]
    fn what_is_hidden_stays_hidden_though_something_below_was_open_before() {
        let sandbox = Sandbox::default()
            .with("/", PathAccess::Read)
            .with("/srv/x", PathAccess::Everything)
            .with("/srv/x/keys/bin", PathAccess::Read)
            .hiding(Path::new("/srv/x/keys"))
            .at_most(Path::new("/srv/x/bin"), PathAccess::Read)
            .at_least(Path::new("/srv/x/keys/agent"), PathAccess::Read)
            .at_least(Path::new("/srv/x/y"), PathAccess::Read);

        let reached = ["/etc", "/srv/x/y", "/srv/x/bin/git", "/srv/x/keys/bin", "/srv/x/keys/agent"]
            .map(|path| sandbox.reach_at(Path::new(path)));

        assert_eq!(
            reached,
            [PathAccess::Read, PathAccess::Everything, PathAccess::Read, PathAccess::Nothing, PathAccess::Read]
        );
    }

    // [T8]
    #[test]
    fn only_folders_with_something_hidden_below_are_narrowed() {
        let sandbox = Sandbox::default()
            .with("/srv/x/state", PathAccess::Nothing)
            .with("/srv/x/state/tree", PathAccess::Everything);

        let narrowed: Vec<bool> = ["/", "/srv/x", "/srv/x/state", "/srv/x/state/tree", "/usr"]
            .map(|folder| sandbox.narrows(Path::new(folder)))
            .to_vec();

        assert_eq!(narrowed, [true, true, false, false, false]);
    }
}
