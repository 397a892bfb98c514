//! Factories that receive from a NATS server, which dies and loses its data.

use std::collections::BTreeSet;
use std::path::Path;

use domain::Mode;
use protocol::DivergenceReport;
use testkit::nats_server::{NatsAccount, NatsServer};

use super::fleet::Fleet;

const FACTORIES: usize = 2;
const JOBS: usize = 8;

/// A fleet whose factories receive from a server.
async fn connected() -> Option<(Fleet, NatsServer)> {
    let account = NatsAccount::default();
    let server = NatsServer::start(&account.settings)?;
    let mut fleet = Fleet::new(FACTORIES);
    let (credentials, key) = (fleet.path("coordinator.creds"), fleet.path("account.seed"));
    std::fs::write(&credentials, &account.credentials).unwrap();
    std::fs::write(&key, &account.seed).unwrap();
    let broker = format!(
        "[coordinator]\nbroker = 'nats://{}'\nbroker_credentials_file = '{}'\nbroker_signing_key_file = '{}'\n",
        server.address(),
        credentials.display(),
        key.display()
    );
    let settings = fleet.path("giga.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    let text = text.replace("[coordinator]\n", &broker);
    std::fs::write(&settings, text.replace("level = 'info'", "level = 'debug'")).unwrap();
    fleet.start_coordinator(None);
    fleet.ship_by_itself().await;
    for index in 0..FACTORIES {
        fleet.start_factory(index, None).await;
    }
    until_receiving(&fleet, 1).await;
    Some((fleet, server))
}

/// Waits until every factory has connected to the broker this often.
async fn until_receiving(fleet: &Fleet, times: usize) {
    for index in 0..FACTORIES {
        let log = fleet.path(&format!("factory-{index}.log"));
        let is_so = || lines(&log, "Receiving offers from the broker") >= times;
        fleet.until("the connection of a factory to the broker", is_so).await;
    }
}

fn lines(log: &Path, text: &str) -> usize {
    std::fs::read_to_string(log).unwrap_or_default().lines().filter(|line| line.contains(text)).count()
}

/// Offers that came from the broker.
fn offers(fleet: &Fleet) -> usize {
    (0..FACTORIES).map(|index| lines(&fleet.path(&format!("factory-{index}.log")), "Received offer")).sum()
}

// [D2] [D6] [I4]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_dies_and_loses_all_data_loses_no_job() {
    let Some((mut fleet, mut server)) = connected().await else { return };
    let mut jobs = BTreeSet::new();
    for number in 0..JOBS {
        jobs.insert(fleet.submit(number, "do some work").await);
    }
    fleet.until("offers from the broker", || offers(&fleet) > 0).await;

    server.kill();
    server.delete_data();
    for number in JOBS..2 * JOBS {
        jobs.insert(fleet.submit(number, "do some work").await);
    }
    fleet.until_all_shipped(&jobs).await;
    let through_inboxes = offers(&fleet);
    server.resume();
    until_receiving(&fleet, 2).await;
    for number in 2 * JOBS..3 * JOBS {
        jobs.insert(fleet.submit(number, "do some work").await);
    }
    fleet.until_all_shipped(&jobs).await;

    assert!(offers(&fleet) > through_inboxes, "no offer came from the new broker\n{}", fleet.logs());
    fleet.assert_nothing_lost_or_doubled(&jobs);
    fleet.end();
}

// [D6]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_dies_finds_its_factories_at_the_broker_again() {
    let Some((mut fleet, _server)) = connected().await else { return };
    let mut jobs = BTreeSet::new();
    for number in 0..JOBS {
        jobs.insert(fleet.submit(number, "do some work").await);
    }

    fleet.kill_coordinator();
    fleet.start_coordinator(None);
    fleet.until_all_connected().await;
    for number in JOBS..2 * JOBS {
        jobs.insert(fleet.submit(number, "do some work").await);
    }
    fleet.until_all_shipped(&jobs).await;

    assert!(offers(&fleet) > 0, "no offer came from the broker\n{}", fleet.logs());
    fleet.assert_nothing_lost_or_doubled(&jobs);
    fleet.end();
}

// [D1] [D6] [I13]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_moves_from_polling_to_push_and_back_on_a_broker() {
    let Some((mut fleet, _server)) = connected().await else { return };
    let mut jobs = BTreeSet::new();
    for (step, mode) in [Mode::Poll, Mode::Shadow, Mode::Push, Mode::SelfSelect, Mode::Poll].into_iter().enumerate() {
        fleet.switch(mode).await;
        // The next switch finds jobs that wait and jobs that run.
        for number in 0..JOBS {
            jobs.insert(fleet.submit(step * JOBS + number, "do some work").await);
        }
        if mode == Mode::Shadow {
            fleet.until_all_shipped(&jobs).await;
        }
    }
    fleet.until_all_shipped(&jobs).await;

    let report: DivergenceReport = fleet.client().await.get("/divergence").await.unwrap();
    let counts = report.summary.counts;
    assert!(counts.delivered > 0, "no shadow message came back from the broker: {report:?}\n{}", fleet.logs());
    assert!(report.summary.decisions > 0 && report.summary.divergent == 0 && counts.missing == 0, "{report:?}");
    fleet.assert_nothing_lost_or_doubled(&jobs);
    fleet.end();
}
