//! Attaches files of a run to its job [J8]: those that match the manifest's globs, and those that its agent names.
//!
//! Agents own the worktree, and may change it while it is read: every step opens one name, and follows no link.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use client::{ClientError, Query};
use domain::{ArtifactGlob, ArtifactName, ContentType, Sha256, byte_size, counted};
use protocol::{ArtifactList, ArtifactView, RunAnswer};
use sandbox::{DirFd, Scrubber};
use sha2::Digest;
use tokio::sync::mpsc;
use tracing::warn;

use super::super::Worker;
use super::{Run, RunLocation};

/// Files of a worktree that are matched against the globs.
const FILES_SEEN_MAX: usize = 200_000;

/// How deep directories are entered.
const DEPTH_MAX: usize = 64;

/// How long all uploads of a run may take together.
const UPLOADS_TIME_MAX: Duration = Duration::from_mins(30);

/// Attempts to send one file.
const ATTEMPTS_MAX: u32 = 4;

/// The pause between two attempts.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Bytes of a file in memory at one time.
const CHUNK_LEN: usize = 256 * 1024;

/// Chunks that wait for the network.
const CHUNKS_WAITING_MAX: usize = 2;

/// The directory that git keeps in a worktree.
const GIT: &str = ".git";

/// A file to attach. The bytes that are sent have no known secrets.
struct OutputFile {
    file: File,
    name: ArtifactName,
    bytes: u64,
    sha256: Sha256,
}

/// Files that match, in order of name.
#[derive(Default)]
struct Matches {
    paths: Vec<String>,
    seen: usize,
    /// Matches whose name no artifact can have.
    unnamed: usize,
}

/// Why a file was not attached.
#[derive(Debug, thiserror::Error)]
enum AttachError {
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("{0}")]
    Refused(String),
    #[error("the coordinator did not take it: {0}")]
    Client(#[from] ClientError),
    #[error("the run was stopped")]
    Stopped,
}

impl Worker {
    /// Attaches the files that match the manifest's globs. What cannot be attached is reported in the run's log, and
    /// does not hold the work back.
    pub(super) async fn attach_outputs(&self, run: &Run, place: Option<&RunLocation>) {
        let globs = &run.assignment.spec.artifacts;
        let Some(place) = place.filter(|_| !globs.is_empty()) else { return };
        let attaching = self.attach_matches(run, place, globs);
        let in_time = async {
            tokio::select! {
                () = attaching => true,
                () = self.clock.sleep(UPLOADS_TIME_MAX) => false,
            }
        };
        if run.stop.run_until_cancelled(in_time).await == Some(false) {
            run.say(&format!("! the artifacts were not attached within {} minutes", UPLOADS_TIME_MAX.as_secs() / 60));
        }
    }

    async fn attach_matches(&self, run: &Run, place: &RunLocation, globs: &[String]) {
        let globs: Vec<ArtifactGlob> = globs.iter().filter_map(|glob| ArtifactGlob::parse(glob).ok()).collect();
        let dir = place.dir.clone();
        let found = tokio::task::spawn_blocking(move || matches(&dir, &globs)).await;
        let found = match found.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into())) {
            Ok(found) => found,
            Err(error) => return self.say_unattached(run, "the artifacts", &error.into()),
        };
        if found.seen >= FILES_SEEN_MAX {
            run.say(&format!("! only {FILES_SEEN_MAX} files were searched for artifacts"));
        }
        if found.unnamed > 0 {
            let files = counted(found.unnamed as u64, "file");
            run.say(&format!("! {files} not attached: an artifact's name has 200 characters at most, on one line"));
        }
        if found.paths.is_empty() {
            run.say("! no file matches `artifacts` of the manifest");
            return;
        }
        for path in &found.paths {
            match self.attach_file(run, &place.dir, path, path).await {
                Ok(view) => run.say(&format!("artifact {} attached ({})", view.name, byte_size(view.bytes))),
                Err(AttachError::Stopped) => return,
                Err(error) => self.say_unattached(run, path, &error),
            }
        }
    }

    fn say_unattached(&self, run: &Run, what: &str, error: &AttachError) {
        let job = run.key.job;
        warn!(job.id = %job, %error, "Could not attach {what} to job {}", self.titles.label(job));
        run.say(&format!("! {what} not attached: {error}"));
    }

    /// Attaches a file that the agent names.
    pub(super) async fn attach_for_agent(&self, run: &Run, dir: &Path, path: &str, name: Option<&str>) -> RunAnswer {
        let refused = |message: String| RunAnswer::Refused { code: "not_attached".to_owned(), message };
        let Some(relative) = below(dir, path) else {
            return refused(format!("`{path}` is not below your working directory; copy the file there"));
        };
        match self.attach_file(run, dir, &relative, name.unwrap_or(&relative)).await {
            Ok(view) => RunAnswer::Attached { name: view.name, bytes: view.bytes },
            Err(error) => refused(format!("{}: {error}", self.scrubber.text(&relative))),
        }
    }

    async fn attach_file(&self, run: &Run, dir: &Path, path: &str, name: &str) -> Result<ArtifactView, AttachError> {
        // A name may have a secret as well.
        let name: ArtifactName = self
            .scrubber
            .text(name)
            .parse()
            .map_err(|error: domain::NameError| AttachError::Refused(error.to_string()))?;
        let known: ArtifactList = self.client.get(&format!("/jobs/{}/artifacts", run.key.job)).await?;
        let bytes_max = known.file_bytes_max.min(known.bytes_max.saturating_sub(known.bytes));
        if known.items.len() as u64 >= known.items_max {
            let limit = known.items_max;
            return Err(AttachError::Refused(format!("the job has {limit} artifacts, which is the limit")));
        }
        let (dir, path, scrubber) = (dir.to_owned(), path.to_owned(), self.scrubber.clone());
        let read = tokio::task::spawn_blocking(move || read_output(&dir, &path, name, &scrubber, bytes_max)).await;
        let output = read.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()))?;
        let mut attempt = 1;
        loop {
            let sent = run.stop.run_until_cancelled(self.send_output(run, &output)).await;
            match sent.ok_or(AttachError::Stopped)? {
                Ok(view) => return Ok(view),
                Err(error) if error.is_final() || attempt >= ATTEMPTS_MAX => return Err(error.into()),
                Err(_) => attempt += 1,
            }
            let pause = run.stop.run_until_cancelled(self.clock.sleep(AGAIN_AFTER)).await;
            pause.ok_or(AttachError::Stopped)?;
        }
    }

    async fn send_output(&self, run: &Run, output: &OutputFile) -> Result<ArtifactView, ClientError> {
        let path = Query::new(format!("/jobs/{}/artifacts", run.key.job))
            .with("leaseEpoch", run.key.epoch.to_string())
            .with("name", output.name.as_str())
            .with("sha256", output.sha256.as_str())
            .with("contentType", ContentType::of_name(&output.name).as_str());
        let file = output.file.try_clone().map_err(|error| ClientError::Unusable(error.to_string()))?;
        let (chunks, waiting) = mpsc::channel(CHUNKS_WAITING_MAX);
        let scrubber = self.scrubber.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let ended = each_chunk(&file, &scrubber, u64::MAX, &mut |chunk| {
                chunks.blocking_send(Ok(Bytes::from(chunk))).map_err(|_| io::ErrorKind::BrokenPipe.into())
            });
            if let Err(error) = ended {
                let _ = chunks.blocking_send(Err(error));
            }
        });
        let sent = self.client.upload_chunks(path.as_str(), "application/octet-stream", waiting, output.bytes).await;
        // Its receiver is gone by now.
        let _ = reading.await;
        sent
    }
}

/// The path below the working directory that an agent means: relative, or absolute within it.
fn below(dir: &Path, path: &str) -> Option<String> {
    let path = Path::new(path.trim());
    let relative = if path.is_absolute() { path.strip_prefix(dir).ok()? } else { path };
    let mut parts = Vec::new();
    for part in relative.components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// The files below a directory that match any of the globs.
fn matches(dir: &Path, globs: &[ArtifactGlob]) -> io::Result<Matches> {
    let mut found = Matches::default();
    walk(&DirFd::open(dir)?, &mut PathBuf::new(), 0, globs, &mut found);
    found.paths.sort_unstable();
    Ok(found)
}

fn walk(dir: &DirFd, path: &mut PathBuf, depth: usize, globs: &[ArtifactGlob], found: &mut Matches) {
    for name in dir.names().unwrap_or_default() {
        if found.seen >= FILES_SEEN_MAX {
            return;
        }
        if name == OsStr::new(GIT) {
            continue;
        }
        path.push(&name);
        if dir.is_folder(&name).unwrap_or(false) {
            if depth < DEPTH_MAX
                && let Ok(inner) = dir.enter(&name)
            {
                walk(&inner, path, depth + 1, globs, found);
            }
        } else {
            found.seen += 1;
            match path.to_str() {
                Some(text) if globs.iter().any(|glob| glob.matches(text)) => {
                    match text.parse::<ArtifactName>().is_ok() {
                        true => found.paths.push(text.to_owned()),
                        false => found.unnamed += 1,
                    }
                }
                _ => {}
            }
        }
        path.pop();
    }
}

/// Opens a file below a directory, and computes the digest of what will be sent.
fn read_output(
    dir: &Path,
    path: &str,
    name: ArtifactName,
    scrubber: &Scrubber,
    bytes_max: u64,
) -> io::Result<OutputFile> {
    let mut folder = DirFd::open(dir)?;
    let (folders, file_name) = path.rsplit_once('/').map_or((None, path), |(folders, name)| (Some(folders), name));
    for part in folders.into_iter().flat_map(|folders| folders.split('/')) {
        folder = folder.enter(part)?;
    }
    let (file, _) = folder.file(file_name)?;
    let (mut digest, mut bytes) = (sha2::Sha256::new(), 0);
    each_chunk(&file, scrubber, bytes_max, &mut |chunk| {
        bytes += chunk.len() as u64;
        digest.update(&chunk);
        Ok(())
    })?;
    Ok(OutputFile { file, name, bytes, sha256: Sha256::of(digest.finalize().into()) })
}

/// Reads a file from its start, without secrets, up to the limit.
fn each_chunk(
    mut file: &File,
    scrubber: &Scrubber,
    bytes_max: u64,
    take: &mut dyn FnMut(Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let (mut stream, mut chunk, mut read) = (scrubber.stream(), vec![0; CHUNK_LEN], 0_u64);
    loop {
        let len = file.read(&mut chunk)?;
        if len == 0 {
            break;
        }
        read += len as u64;
        if read > bytes_max {
            let why = format!("it is larger than the {} that the job may still attach", byte_size(bytes_max));
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        let shown = stream.push(&chunk[..len]);
        if !shown.is_empty() {
            take(shown)?;
        }
    }
    let rest = stream.finish();
    if rest.is_empty() { Ok(()) } else { take(rest) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn globs(texts: &[&str]) -> Vec<ArtifactGlob> {
        texts.iter().map(|text| ArtifactGlob::parse(text).unwrap()).collect()
    }

    fn output(dir: &Path, path: &str, bytes_max: u64) -> io::Result<OutputFile> {
        read_output(dir, path, "x".parse().unwrap(), &Scrubber::default(), bytes_max)
    }

    // [J8] [attack: artifact path traversal, bombs]
    #[test]
    fn only_ordinary_files_below_the_worktree_are_attached() {
        let place = tempfile::tempdir().unwrap();
        let (dir, secret) = (place.path().join("tree"), place.path().join("secret"));
        fs::create_dir_all(dir.join("out/deep")).unwrap();
        fs::create_dir_all(dir.join(".git")).unwrap();
        for file in ["out/a.txt", "out/deep/b.txt", ".git/config"] {
            fs::write(dir.join(file), "x").unwrap();
        }
        fs::write(&secret, "s").unwrap();
        symlink(&secret, dir.join("out/link.txt")).unwrap();
        symlink(place.path(), dir.join("up")).unwrap();
        fs::hard_link(&secret, dir.join("out/hard.txt")).unwrap();

        let found = matches(&dir, &globs(&["**"])).unwrap().paths;
        let readable: Vec<&String> = found.iter().filter(|path| output(&dir, path, 10).is_ok()).collect();

        assert_eq!(readable, ["out/a.txt", "out/deep/b.txt"], "of {found:?}");
        for path in ["up/secret", "out/link.txt", "out/hard.txt", "out/../../secret", "out", "no"] {
            assert!(output(&dir, path, 10).is_err(), "{path}");
        }
    }

    // [J8] [attack: artifact path traversal, bombs]
    #[test]
    fn an_agents_path_stays_below_its_working_directory() {
        let dir = Path::new("/w/tree");

        let meant: Vec<Option<String>> =
            ["a/b", "./a", "/w/tree/a", " a ", "..", "a/../b", "/etc/passwd", "/w/tree", ""]
                .iter()
                .map(|path| below(dir, path))
                .collect();

        let of = |text: &str| Some(text.to_owned());
        assert_eq!(meant, [of("a/b"), of("a"), of("a"), of("a"), None, None, None, None, None]);
    }

    // [J8] [attack: secrets in logs, events, artifacts]
    #[test]
    fn the_bytes_that_are_sent_have_no_secret() {
        let place = tempfile::tempdir().unwrap();
        let secret = "canary-0123456789abcdef";
        let text = format!("{}{secret}{}", "a".repeat(CHUNK_LEN - 5), "b".repeat(100));
        fs::write(place.path().join("out"), &text).unwrap();
        let scrubber = Scrubber::new([secret]);

        let output = read_output(place.path(), "out", "x".parse().unwrap(), &scrubber, u64::MAX).unwrap();
        let mut sent = Vec::new();
        each_chunk(&output.file, &scrubber, u64::MAX, &mut |chunk| {
            sent.extend(chunk);
            Ok(())
        })
        .unwrap();

        assert!(!String::from_utf8_lossy(&sent).contains("canary"), "the secret spans two chunks");
        assert_eq!(output.bytes, sent.len() as u64);
        assert_eq!(output.sha256, Sha256::of(sha2::Sha256::digest(&sent).into()));
    }

    // [J8] [attack: artifact path traversal, bombs]
    #[test]
    fn a_file_that_is_too_large_is_not_read_to_its_end() {
        let place = tempfile::tempdir().unwrap();
        let bomb = File::create(place.path().join("bomb")).unwrap();
        bomb.set_len(1 << 40).unwrap();

        let error = output(place.path(), "bomb", 1 << 20).map(|_| ()).unwrap_err();

        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("1.0 MiB"), "{error}");
    }
}
