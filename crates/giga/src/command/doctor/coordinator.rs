//! The coordinator: is it there, does it know us, and would one start here?

use protocol::{AlertCode, AlertList, Health, JobList, PROTOCOL_VERSION};

use crate::api::{connect, connect_as_nobody};
use crate::compose;
use crate::config::{Config, Origin};
use crate::failure::Failure;

use super::check::Check;

/// Queries the coordinator, and checks the settings that one would be started with.
pub(super) async fn examine(config: &Config) -> Vec<Check> {
    let mut checks = Vec::from_iter(listener(config));
    match health(config).await {
        Ok(health) => {
            checks.push(version(config, &health));
            checks.push(token(config).await);
            checks.extend(store_alerts(config).await);
        }
        Err(failure) => checks.push(unreachable(config, &failure)),
    }
    checks
}

async fn health(config: &Config) -> Result<Health, Failure> {
    Ok(connect_as_nobody(config)?.get("/healthz").await?)
}

fn version(config: &Config, health: &Health) -> Check {
    let text = format!("{} runs version {}, and is {}", config.client.api.value, health.version, health.status);
    if health.protocol.abs_diff(PROTOCOL_VERSION) > 1 {
        let remedy =
            format!("it speaks protocol {}, this program {PROTOCOL_VERSION}: update the older one", health.protocol);
        return Check::fail("coordinator", text, remedy);
    }
    if health.status != "ok" {
        return Check::fail("coordinator", text, "read its log");
    }
    Check::ok("coordinator", text)
}

async fn token(config: &Config) -> Check {
    let client = match connect(config) {
        Ok(client) => client,
        Err(failure) => return Check::fail("token", failure.message(), failure.hint_text().unwrap_or_default()),
    };
    match client.get::<JobList>("/jobs?limit=1").await.map_err(Failure::from) {
        Ok(_) => Check::ok("token", "accepted by the coordinator"),
        Err(failure) => Check::fail("token", failure.message(), failure.hint_text().unwrap_or("get another")),
    }
}

/// What the coordinator reports about its store.
async fn store_alerts(config: &Config) -> Vec<Check> {
    let Ok(client) = connect(config) else { return Vec::new() };
    let Ok(alerts) = client.get::<AlertList>("/alerts").await else { return Vec::new() };
    let of_store = |alert: &&protocol::Alert| {
        matches!(alert.code, AlertCode::StoreDamaged | AlertCode::UnreadableDocument | AlertCode::DiskFull)
    };
    let fail =
        |alert: &protocol::Alert| Check::fail("store", alert.message.clone(), "see docs/how-to/troubleshooting.md");
    alerts.items.iter().filter(of_store).map(fail).collect()
}

fn unreachable(config: &Config, failure: &Failure) -> Check {
    if config.client.stopped.is_some() {
        return Check::warn("coordinator", failure.message(), "start it with `giga up`");
    }
    let of_factory = compose::factory_address(config, &config.factory.state.value);
    match config.client.api.origin {
        Origin::Default if of_factory != config.client.api.value => {
            let text =
                format!("the factory of this machine works for {of_factory}; clients need GIGA_API and GIGA_TOKEN");
            Check::ok("coordinator", text)
        }
        Origin::Derived { .. } | Origin::Default => {
            let text = format!("none at {}", config.client.api.value);
            Check::warn("coordinator", text, "start one with `giga up`, or set `client.api` in giga.toml")
        }
        _ => {
            let text = format!("{} (the address is from {})", failure.message(), config.client.api.origin);
            Check::fail("coordinator", text, failure.hint_text().unwrap_or("check the address"))
        }
    }
}

/// What a coordinator on this machine would refuse to start with.
fn listener(config: &Config) -> Option<Check> {
    let own = &config.coordinator;
    let files = [&own.tls_cert, &own.tls_key];
    for setting in files {
        if let Some(path) = &setting.value
            && let Err(error) = std::fs::File::open(path)
        {
            let text = format!("cannot read {}: {error}", path.display());
            return Some(Check::fail("listener", text, format!("fix it in {}", setting.origin)));
        }
    }
    if own.tls_cert.value.is_some() != own.tls_key.value.is_some() {
        return Some(Check::fail("listener", "a certificate needs its key, and a key its certificate", "set both"));
    }
    let is_open = !own.listen.value.ip().is_loopback() && own.tls_cert.value.is_none() && !own.behind_proxy.value;
    is_open.then(|| {
        let text = format!("{} can be reached from other machines, without TLS", own.listen.value);
        Check::fail("listener", text, "set coordinator.tls_cert and tls_key, or behind_proxy if a proxy speaks TLS")
    })
}
