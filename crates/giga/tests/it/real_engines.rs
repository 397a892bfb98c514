//! The real claude and codex through a whole fleet, against a stand-in of the models behind them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clock::SystemClock;
use domain::{Clock, Timestamp};
use fake_model_api::{Agent, FakeModelApi, Programs, Turn, Usage, expired_codex_login};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::fleet::Fleet;
use crate::processes;

/// A used-up window is waited out, and the fleet takes up to half a minute longer than it lasts.
const PATIENCE: Duration = Duration::from_secs(150);

/// The test's prices of a million tokens: input, cached input, output.
const PRICE: [f64; 3] = [2.0, 0.5, 10.0];

/// A fleet whose one engine is a real program, and the model behind it.
struct EngineFleet {
    fleet: Fleet,
    model: FakeModelApi,
}

impl EngineFleet {
    /// `more` is added to the engine's section. `None` if the programs are not installed, which is reported.
    fn open(agent: Agent, more: &str, script: impl IntoIterator<Item = Turn>) -> Option<Self> {
        Self::running(&Programs::for_test()?, agent, more, script)
    }

    /// The same with given programs.
    fn running(programs: &Programs, agent: Agent, more: &str, script: impl IntoIterator<Item = Turn>) -> Option<Self> {
        Self::with(programs, script, |programs, model, _| match agent {
            Agent::Claude => claude(programs, model, more),
            Agent::Codex => codex(programs, model, more),
        })
    }

    /// `engine` gives the engine's section.
    fn with(
        programs: &Programs,
        script: impl IntoIterator<Item = Turn>,
        engine: impl FnOnce(&Programs, &FakeModelApi, &Path) -> String,
    ) -> Option<Self> {
        let model = FakeModelApi::start(script).unwrap();
        let mut fleet = Fleet::new();
        let config = fleet.machine.read("giga.toml");
        let without_script = config.split("[factory.engines").next().unwrap();
        let engine = engine(programs, &model, fleet.machine.path());
        fleet.machine.write("giga.toml", &format!("{without_script}{engine}"));
        fleet.start_up();
        Some(Self { fleet, model })
    }

    /// Submits the work and gives the job's id.
    fn submit(&self, more: &str) -> String {
        self.submit_unverified(&format!("verify: [test -f out.txt]\n{more}"))
    }

    /// The same without a verify command.
    fn submit_unverified(&self, more: &str) -> String {
        let manifest = format!("---\ntitle: Real work\nrepo: work\n{more}---\nWrite out.txt.\n");
        self.fleet.machine.write("job.md", &manifest);
        let submitted = self.fleet.json(&["submit", "job.md"]);
        submitted[0]["job"]["id"].as_str().unwrap().to_owned()
    }

    fn job(&self, id: &str) -> Value {
        self.fleet.json(&["job", id]).remove(0)
    }

    /// The job once it is in one of these stages.
    fn until(&self, id: &str, stages: &[&str]) -> Value {
        let settled = || stages.contains(&self.job(id)["job"]["stage"].as_str().unwrap());
        assert!(
            processes::becomes_so(PATIENCE, settled),
            "{:#}\n{}",
            self.job(id),
            self.fleet.machine.read("long-lived.log")
        );
        self.job(id)
    }

    /// The job once its first run is over.
    fn until_first_run_ended(&self, id: &str) -> Value {
        let ended = || self.job(id)["runs"][0]["outcome"] != Value::Null;
        assert!(
            processes::becomes_so(PATIENCE, ended),
            "{:#}\n{}",
            self.job(id),
            self.fleet.machine.read("long-lived.log")
        );
        self.job(id)
    }

    /// A file on the job's own branch of the remote, which follows soon after the job is complete.
    fn on_branch(&self, id: &str, file: &str) -> String {
        let object = format!("aq/job/{id}:{file}");
        assert!(processes::becomes_so(PATIENCE, || self.git(&["show", &object]).is_some()), "there is no {object}");
        self.git(&["show", &object]).unwrap()
    }

    /// What git prints about the remote, if it succeeds.
    fn git(&self, args: &[&str]) -> Option<String> {
        let repo = self.fleet.machine.path().join("work.git");
        let done = Command::new("git").current_dir(repo).args(args).output().unwrap();
        done.status.success().then(|| String::from_utf8(done.stdout).unwrap())
    }

    fn log(&self, id: &str) -> Vec<String> {
        let lines = self.fleet.json(&["logs", id]);
        lines.iter().map(|line| line["line"].as_str().unwrap().to_owned()).collect()
    }

    /// Whether a request to the model brings back what an earlier call of a tool did.
    fn remembers(&self, request: usize) -> bool {
        let body = self.model.requests()[request].body.to_string();
        ["toolu_1", "call_1"].iter().any(|call| body.contains(call))
    }

    fn close(mut self) {
        assert_eq!(self.fleet.end(Signal::TERM), Some(0));
    }
}

/// A subscription's token: with an API key the program does not check the usage window.
fn claude(programs: &Programs, model: &FakeModelApi, more: &str) -> String {
    format!(
        "[factory.engines.claude]\nprogram = '{}'\n{more}\
         [factory.engines.claude.environment.set]\nANTHROPIC_BASE_URL = '{}'\n\
         CLAUDE_CODE_OAUTH_TOKEN = 'sk-ant-oat01-test'\nCLAUDE_CODE_MAX_RETRIES = '0'\n\
         CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = '1'\n",
        programs.path(Agent::Claude).display(),
        model.url()
    )
}

fn codex(programs: &Programs, model: &FakeModelApi, more: &str) -> String {
    let provider = format!(
        "{{ name = \"standin\", base_url = \"{}/v1\", env_key = \"CODEX_API_KEY\", wire_api = \"responses\", \
         request_max_retries = 0, stream_max_retries = 0 }}",
        model.url()
    );
    let [input, cached, output] = PRICE;
    format!(
        "[factory.engines.codex]\nprogram = '{}'\nmodel = 'gpt-test'\n{more}\
         args = ['-c', 'model_provider=\"standin\"', '-c', 'model_providers.standin={provider}']\n\
         [factory.engines.codex.environment.set]\nCODEX_API_KEY = 'sk-test'\n\
         [factory.prices.gpt-test]\ninput = {input}\ncached = {cached}\noutput = {output}\n",
        programs.path(Agent::Codex).display(),
    )
}

/// Codex with a subscription's credential in a directory of the operator.
fn signed_in_codex(programs: &Programs, model: &FakeModelApi, operators: &Path) -> String {
    std::fs::create_dir(operators).unwrap();
    std::fs::write(operators.join("auth.json"), expired_codex_login().to_string()).unwrap();
    let url = model.url();
    let provider = format!(
        "{{ name = \"standin\", base_url = \"{url}/v1\", requires_openai_auth = true, wire_api = \"responses\", \
         request_max_retries = 0, stream_max_retries = 0 }}"
    );
    format!(
        "[factory.engines.codex]\nprogram = '{}'\nmodel = 'gpt-test'\n\
         args = ['-c', 'model_provider=\"standin\"', '-c', 'model_providers.standin={provider}', \
         '-c', 'chatgpt_base_url=\"{url}/backend-api/\"']\n\
         [factory.engines.codex.environment.set]\nCODEX_HOME = '{}'\n\
         CODEX_REFRESH_TOKEN_URL_OVERRIDE = '{url}/oauth/token'\n",
        programs.path(Agent::Codex).display(),
        operators.display(),
    )
}

/// The files that hold a credential of codex, wherever they are.
fn logins_below(folder: &Path) -> Vec<PathBuf> {
    let found = Command::new("find").arg(folder).args(["-name", "*auth.json*"]).output().unwrap();
    String::from_utf8(found.stdout).unwrap().lines().map(PathBuf::from).collect()
}

fn in_seconds(seconds: i64) -> i64 {
    SystemClock::new().now().as_millis() / 1000 + seconds
}

// [J6] [F2]
#[test]
fn claude_takes_a_prompt_to_a_verified_commit_on_its_branch() {
    let script = [Turn::write("out.txt", "made by an agent\n"), Turn::text("All done.")];
    let Some(shop) = EngineFleet::open(Agent::Claude, "", script) else { return };

    let id = shop.submit("engines: [claude]\n");
    let job = shop.until(&id, &["testing", "failed", "dead_letter"]);

    let run = &job["runs"][0];
    assert_eq!((&run["outcome"], &run["engine"]), (&"completed".into(), &"claude".into()), "{run:#}");
    let figures = &run["insights"];
    assert_eq!((&figures["tokensIn"], &figures["tokensOut"], &figures["turns"]), (&200.into(), &40.into(), &2.into()));
    assert!(figures["costUsd"].as_f64().unwrap() > 0.0, "{figures}");
    assert_eq!(run["evidence"][0]["exit"], 0, "{run:#}");
    assert_eq!(shop.on_branch(&id, "out.txt"), "made by an agent\n");
    let trailer =
        shop.git(&["log", "-1", "--format=%(trailers:key=Gigafactory-Job,valueonly)", &format!("aq/job/{id}")]);
    assert_eq!(trailer.unwrap().trim(), id);
    let log = shop.log(&id);
    assert!(log.iter().any(|line| line == "● Write out.txt") && log.iter().any(|line| line == "All done."), "{log:?}");
    let asked = shop.model.requests()[0].body.to_string();
    assert!(asked.contains("Write out.txt."), "the prompt has reached the model");
    shop.close();
}

/// The first run fails its verification, so that the second one resumes the session.
fn a_resumed_run_costs_its_own_share(programs: Option<Programs>, agent: Agent) {
    let Some(programs) = programs else { return };
    let say = || Turn::text("All done.");
    let script = [Turn::write("other.txt", "made first\n"), say(), Turn::write("out.txt", "made second\n"), say()];
    let Some(shop) = EngineFleet::running(&programs, agent, "", script) else { return };

    let id = shop.submit("retry: { max: 2, backoff: 1s }\n");
    let job = shop.until(&id, &["testing", "failed", "dead_letter"]);

    let outcomes = [&job["runs"][0]["outcome"], &job["runs"][1]["outcome"]];
    assert_eq!(outcomes, [&serde_json::json!({ "failed": "verify_failed" }), &"completed".into()], "{job:#}");
    assert!(shop.remembers(2), "the session was not resumed: {}", shop.model.requests()[2].body);
    let figures = |run: usize| {
        let insights = &job["runs"][run]["insights"];
        let cost = (insights["costUsd"].as_f64().unwrap() * 1e9).round();
        (insights["tokensIn"].as_u64(), insights["tokensOut"].as_u64(), cost)
    };
    assert_eq!(figures(0), figures(1), "{:#}", job["runs"]);
    assert!(figures(0).2 > 0.0, "{:#}", job["runs"]);
    shop.close();
}

// [F2]
#[test]
fn a_resumed_run_of_claude_costs_its_own_share() {
    a_resumed_run_costs_its_own_share(Programs::for_test(), Agent::Claude);
}

#[test]
fn a_resumed_run_of_codex_costs_its_own_share() {
    a_resumed_run_costs_its_own_share(Programs::for_test(), Agent::Codex);
}

#[test]
fn a_resumed_run_of_the_oldest_claude_costs_its_own_share() {
    a_resumed_run_costs_its_own_share(Programs::oldest(), Agent::Claude);
}

#[test]
fn a_resumed_run_of_the_oldest_codex_costs_its_own_share() {
    a_resumed_run_costs_its_own_share(Programs::oldest(), Agent::Codex);
}

/// The stream has 1 output token for each message; claude's own record has the rest.
#[test]
fn a_stopped_run_of_claude_is_charged_for_its_output_tokens() {
    let script = [Turn::write("out.txt", "made\n"), Turn::run("tail -f /dev/null"), Turn::text("All done.")];
    let Some(shop) = EngineFleet::open(Agent::Claude, "", script) else { return };

    let id = shop.submit("engines: [claude]\nbudget: { tokens: 230 }\n");
    let job = shop.until_first_run_ended(&id);

    let run = &job["runs"][0];
    assert_eq!(run["outcome"], serde_json::json!({ "failed": "budget_exceeded" }), "{job:#}");
    let figures = &run["insights"];
    assert_eq!((&figures["tokensIn"], &figures["tokensOut"]), (&200.into(), &40.into()), "{run:#}");
    assert!(figures["costUsd"].as_f64().unwrap() > 0.0, "{run:#}");
    assert_eq!(run["message"], "it used 240 tokens, of 230 left of the job's `budget.tokens`", "{run:#}");
    shop.close();
}

// [F4] [B1]
#[test]
fn claude_waits_for_its_window_and_goes_on_with_its_conversation_in_another_worktree() {
    let write = Turn::write("out.txt", "made before the limit\n");
    // Long enough for the slowest fleet to get there: a reset that lies behind us is as good as none.
    let script = [write, Turn::usage_limit(in_seconds(30)), Turn::text("All done.")];
    let Some(shop) = EngineFleet::open(Agent::Claude, "", script) else { return };

    let id = shop.submit("engines: [claude]\n");
    let waiting = shop.until_first_run_ended(&id);
    let job = shop.until(&id, &["testing", "failed", "dead_letter"]);

    assert_eq!(waiting["runs"][0]["outcome"], "quota_window", "{waiting:#}");
    assert_eq!((&waiting["job"]["stage"], &waiting["job"]["attempts"]), (&"queued".into(), &0.into()), "{waiting:#}");
    let told = waiting["job"]["message"].as_str().unwrap();
    assert!(told.starts_with("waiting for claude/five_hour to reset at"), "{told}");
    assert_eq!((&job["runs"][1]["outcome"], &job["job"]["attempts"]), (&"completed".into(), &0.into()), "{job:#}");
    assert_ne!(job["runs"][0]["epoch"], job["runs"][1]["epoch"], "another epoch is another worktree");
    assert!(shop.remembers(2), "{}", shop.model.requests()[2].body);
    assert_eq!(shop.on_branch(&id, "out.txt"), "made before the limit\n");
    let spent = |run: usize| job["runs"][run]["insights"]["tokensIn"].as_u64();
    assert_eq!((spent(0), spent(1)), (Some(100), Some(100)), "each run pays for itself");
    shop.close();
}

// [F2] [B4]
#[test]
fn claude_that_is_refused_a_tool_is_done_by_its_verified_change() {
    let script = [Turn::write("out.txt", "made\n"), Turn::run("curl http://127.0.0.1:9/"), Turn::text("All done.")];
    let Some(shop) = EngineFleet::open(Agent::Claude, "permission_mode = 'acceptEdits'\n", script) else { return };

    let id = shop.submit("engines: [claude]\nretry: { max: 1 }\n");
    let job = shop.until(&id, &["testing", "failed", "dead_letter"]);

    assert_eq!(job["runs"][0]["outcome"], "completed", "{job:#}");
    let evidence = shop.fleet.json(&["runs", &id, "1"]).remove(0);
    assert_eq!(evidence["refused"], serde_json::json!(["Bash (curl http://127.0.0.1:9/)"]), "{evidence:#}");
    shop.close();
}

// [F2]
#[test]
fn codex_that_changes_nothing_because_of_a_refusal_has_failed() {
    let patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: out.txt\n+made\n*** End Patch\nEOF\n";
    let Some(shop) =
        EngineFleet::open(Agent::Codex, "sandbox = 'read-only'\n", [Turn::run(patch), Turn::text("All done.")])
    else {
        return;
    };

    let id = shop.submit_unverified("engines: [codex]\n");
    let job = shop.until(&id, &["testing", "failed", "dead_letter"]);

    let run = &job["runs"][0];
    assert_eq!(run["outcome"], serde_json::json!({ "failed": "engine_error" }), "{job:#}");
    assert_eq!(job["runs"].as_array().unwrap().len(), 1, "the next run would be refused it too: {job:#}");
    let message = run["message"].as_str().unwrap();
    assert!(message.contains("the agent was not allowed to use Shell (apply_patch"), "{message}");
    assert_eq!(run["insights"]["turns"], 2, "{run:#}");
    shop.close();
}

// [F2]
#[test]
fn neither_an_outage_nor_a_bad_key_counts_an_attempt() {
    for agent in [Agent::Claude, Agent::Codex] {
        for (turn, problem) in [(Turn::server_error(), "is not available"), (Turn::bad_key(), "is not signed in here")]
        {
            let Some(shop) = EngineFleet::open(agent, "", [turn]) else { return };

            let id = shop.submit("retry: { max: 1 }\n");
            let job = shop.until_first_run_ended(&id);

            let run = &job["runs"][0];
            assert_eq!(run["outcome"], "released", "{agent:?} {job:#}");
            let message = run["message"].as_str().unwrap();
            assert!(message.contains(problem), "{agent:?} {message}");
            assert_eq!((&job["job"]["stage"], &job["job"]["attempts"]), (&"queued".into(), &0.into()), "{job:#}");
            let usd = run["insights"]["costUsd"].as_f64().unwrap_or(0.0);
            assert!(usd.abs() < f64::EPSILON, "{agent:?}: nothing was answered, so nothing was spent: {run:#}");
            shop.close();
        }
    }
}

// [J6] [F2]
#[test]
fn codex_takes_a_prompt_to_a_verified_commit_and_its_tokens_are_priced() {
    let write = Turn::write("out.txt", "it's made by an agent\n");
    let usage = Usage { tokens_in: 1_000, tokens_cached: 400, tokens_out: 50 };
    let Some(shop) = EngineFleet::open(Agent::Codex, "", [write.using(usage), Turn::text("All done.").using(usage)])
    else {
        return;
    };

    let id = shop.submit("engines: [codex]\n");
    let job = shop.until(&id, &["testing", "failed", "dead_letter"]);

    let run = &job["runs"][0];
    assert_eq!((&run["outcome"], &run["engine"]), (&"completed".into(), &"codex".into()), "{run:#}");
    let figures = &run["insights"];
    assert_eq!((&figures["tokensIn"], &figures["tokensOut"]), (&2_000.into(), &100.into()), "{figures}");
    let [input, cached, output] = PRICE;
    let expected = (1_200.0 * input + 800.0 * cached + 100.0 * output) / 1e6;
    let cost = figures["costUsd"].as_f64().unwrap();
    assert!((cost - expected).abs() < 1e-9, "{cost} is not {expected}");
    assert_eq!(shop.on_branch(&id, "out.txt"), "it's made by an agent\n");
    shop.close();
}

// [B1]
#[test]
fn codex_says_in_words_when_its_window_opens_and_the_job_waits_for_that() {
    let reset = in_seconds(2 * 60 * 60);
    let Some(shop) = EngineFleet::open(Agent::Codex, "", [Turn::usage_limit(reset)]) else { return };

    let id = shop.submit("engines: [codex]\n");
    let job = shop.until_first_run_ended(&id);

    assert_eq!(job["runs"][0]["outcome"], "quota_window", "{job:#}");
    assert_eq!((&job["job"]["stage"], &job["job"]["attempts"]), (&"queued".into(), &0.into()), "{job:#}");
    let minute = Timestamp::from_millis(reset * 1000).to_the_minute();
    assert_eq!(job["job"]["message"], format!("waiting for codex to reset at {minute}"), "{job:#}");
    shop.close();
}

// [J6] [F4]
#[test]
fn codex_goes_on_with_its_conversation_after_an_outage_and_pays_for_each_run_once() {
    let script = [Turn::write("out.txt", "made before the trouble\n"), Turn::server_error(), Turn::text("All done.")];
    let Some(shop) = EngineFleet::open(Agent::Codex, "", script) else { return };

    let id = shop.submit("engines: [codex]\nretry: { max: 1 }\n");
    let job = shop.until(&id, &["testing", "failed", "dead_letter"]);

    let outcomes = [&job["runs"][0]["outcome"], &job["runs"][1]["outcome"]];
    assert_eq!((outcomes, &job["job"]["attempts"]), ([&"released".into(), &"completed".into()], &0.into()), "{job:#}");
    let spent = |run: usize| job["runs"][run]["insights"]["tokensIn"].as_u64();
    assert_eq!((spent(0), spent(1)), (Some(100), Some(100)), "a turn that fails leaves its figures in its own record");
    let last = shop.model.requests().len() - 1;
    assert!(shop.remembers(last), "{}", shop.model.requests()[last].body);
    assert_eq!(shop.on_branch(&id, "out.txt"), "made before the trouble\n");
    shop.close();
}

// [T8]
#[test]
fn a_login_that_codex_refreshes_comes_back_though_its_factory_is_killed_and_is_used_again() {
    let script = [Turn::run("sleep 600"), Turn::write("out.txt", "made"), Turn::text("All done.")];
    let Some(programs) = Programs::for_test() else { return };
    let open = EngineFleet::with(&programs, script, |programs, model, folder| {
        signed_in_codex(programs, model, &folder.join("operators"))
    });
    let Some(shop) = open else { return };
    let folder = shop.fleet.machine.path().to_owned();
    let operators = folder.join("operators/auth.json");
    let read = || serde_json::from_slice::<Value>(&std::fs::read(&operators).unwrap()).unwrap();

    let id = shop.submit("engines: [codex]\n");
    assert!(processes::becomes_so(PATIENCE, || !shop.model.requests().is_empty()), "{:#}", shop.job(&id));
    for factory in processes::ours(&folder, "factory") {
        kill_process(factory, Signal::KILL).unwrap();
    }
    let job = shop.until(&id, &["testing", "failed", "dead_letter"]);

    let outcomes = [&job["runs"][0]["outcome"], &job["runs"][1]["outcome"]];
    assert_eq!(outcomes, ["released", "completed"], "{job:#}\n{}", shop.fleet.machine.read("long-lived.log"));
    let (before, after) = (expired_codex_login(), read());
    assert_eq!(after["tokens"]["refresh_token"], "second");
    assert_eq!(after["tokens"]["account_id"], before["tokens"]["account_id"]);
    assert!(after["last_refresh"].as_str() > before["last_refresh"].as_str(), "{after:#}");
    assert_eq!(logins_below(&folder), [operators], "no credential stays in a home");
    shop.close();
}

/// The agent asks through the tools of its run, is parked, and goes on with the answer in the same conversation.
fn an_agent_asks_with_its_tool(agent: Agent) {
    let question = "Which colour, red or blue?";
    let script = [
        Turn::write("draft.txt", "half of it\n"),
        Turn::call("ask_human", serde_json::json!({ "question": question })),
        Turn::text("I wait for the answer."),
        Turn::write("out.txt", "blue\n"),
        Turn::text("All done."),
    ];
    let Some(shop) = EngineFleet::open(agent, "", script) else { return };
    let name = match agent {
        Agent::Claude => "claude",
        Agent::Codex => "codex",
    };

    let id = shop.submit(&format!("engines: [{name}]\n"));
    let parked = shop.until(&id, &["blocked", "testing", "failed", "dead_letter"]);
    let told = shop.model.requests()[2].body.to_string();
    shop.fleet.json(&["answer", &id, "-m", "blue, please"]);
    let done = shop.until(&id, &["testing", "failed", "dead_letter"]);

    assert_eq!(parked["job"]["question"], question, "{parked:#}\n{:?}", shop.log(&id));
    assert_eq!(parked["job"]["attempts"], 0);
    let saved = parked["job"]["checkpoint"]["sha"].as_str().unwrap();
    assert!(told.contains("parked, stop now"), "the tool has answered the agent: {told}");
    assert_eq!(shop.git(&["show", &format!("{saved}:draft.txt")]).as_deref(), Some("half of it\n"));
    assert_eq!(done["job"]["stage"], "testing", "{done:#}");
    let resumed = shop.model.requests()[3].body.to_string();
    assert!(resumed.contains("blue, please") && shop.remembers(3), "{resumed}");
    assert_eq!(shop.on_branch(&id, "out.txt"), "blue\n");
    assert_eq!(shop.on_branch(&id, "draft.txt"), "half of it\n");
    shop.close();
}

// [B11] [B6]
#[test]
fn claude_asks_a_person_with_the_tool_of_its_run() {
    an_agent_asks_with_its_tool(Agent::Claude);
}

// [B11] [B6]
#[test]
fn codex_asks_a_person_with_the_tool_of_its_run() {
    an_agent_asks_with_its_tool(Agent::Codex);
}
