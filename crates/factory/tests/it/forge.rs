//! Pull requests on a forge, with every fault of the connection [F5].

mod fake_github;
mod loops;
mod merging;
mod opening;
mod seeing;
mod through_gh;

use std::sync::Arc;

use domain::{CommitSha, JobId};
use forge::{Forge as PullRequests, ForgeConfig, ForgeKind, Forges, PullRequestDraft};

use fake_github::{GitHub, TOKEN};
use testkit::host::{TestRemote, clock, git, job, main, notes};

/// A remote, a fake GitHub over it, and the client.
struct Scene {
    remote: TestRemote,
    github: GitHub,
    forge: Arc<dyn PullRequests>,
}

impl Scene {
    async fn new() -> Self {
        let remote = TestRemote::new();
        let github = GitHub::with(remote.remote()).await;
        let config = config(&remote, &github);
        let forge = Forges::open(config, &remote.path("home"), clock()).unwrap().of(&notes(), "/elsewhere").unwrap();
        Self { remote, github, forge }
    }

    /// A commit on the job's branch.
    fn push(&self, text: &str) -> CommitSha {
        let (seed, branch) = (self.remote.path("seed"), branch(job()));
        git(&seed, &["checkout", "--quiet", "--detach", "main"]);
        std::fs::write(seed.join("done.md"), text).unwrap();
        git(&seed, &["add", "-A"]);
        git(&seed, &["commit", "--quiet", "-m", text]);
        git(&seed, &["push", "--quiet", "--force", "../remote.git", &format!("HEAD:refs/heads/{branch}")]);
        git(&seed, &["rev-parse", "HEAD"]).parse().unwrap()
    }

    fn main(&self) -> CommitSha {
        self.remote.shows("refs/heads/main").unwrap()
    }
}

/// A configuration for the fake: its token is in a file.
fn config(remote: &TestRemote, github: &GitHub) -> ForgeConfig {
    let token = remote.path("forge.token");
    std::fs::write(&token, TOKEN).unwrap();
    ForgeConfig {
        kind: ForgeKind::Github,
        api: Some(github.base()),
        token_file: Some(token),
        slugs: [(notes(), "acme/notes".parse().unwrap())].into(),
        ..ForgeConfig::default()
    }
}

fn branch(job: JobId) -> String {
    format!("aq/job/{job}")
}

fn proposal() -> PullRequestDraft {
    PullRequestDraft {
        job: job(),
        branch: branch(job()),
        base: main(),
        title: "Write it down".to_owned(),
        body: "<!-- gigafactory:begin -->\nIt is done.\n<!-- gigafactory:end -->".to_owned(),
        draft: false,
        labels: Vec::new(),
        reviewers: Vec::new(),
    }
}
