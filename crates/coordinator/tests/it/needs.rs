//! What needs a person, and who may do what about it.

use coordinator::{Error, NeedsFilter, Principal};
use domain::{FailureReason, JobId, Refusal, RunInsights, StageName, TokenScope};
use protocol::{Action, ErrandOutcome, NeedAction, NeedKind, NeedList, ProductSettings, QuestionReport};

use super::{lasting, quick};
use crate::fleet::{Fleet, IN_REPO, PLAIN};
use crate::machine::{Grip, Machine, Offers, sha};

async fn needs(fleet: &Fleet, who: &Principal) -> NeedList {
    fleet.coordinator.needs_me(who, NeedsFilter::default(), None, 200).await.unwrap()
}

fn kinds(list: &NeedList) -> Vec<NeedKind> {
    list.items.iter().map(|need| need.kind).collect()
}

/// A job whose agent asks a question.
async fn asking(fleet: &Fleet, mac: &Machine, body: &str) -> JobId {
    let job = fleet.submit(body).await;
    let grip = mac.build(fleet, job).await;
    let question = "Which brick?\nRed or blue?".to_owned();
    let ask = QuestionReport { lease_epoch: grip.epoch, question, checkpoint: None, insights: RunInsights::default() };
    fleet.coordinator.ask(&mac.who, job, &ask).await.unwrap();
    mac.let_go(grip);
    job
}

/// A job that failed for good.
async fn hopeless(fleet: &Fleet, mac: &Machine) -> JobId {
    let job = fleet.submit("---\ntitle: Hopeless\nretry: { max: 1 }\n---\nTry.\n").await;
    let grip = mac.build(fleet, job).await;
    mac.fail(fleet, grip, FailureReason::VerifyFailed).await.unwrap();
    job
}

// [U1] [D4]
#[tokio::test]
async fn a_question_is_listed_until_it_is_answered() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = asking(&fleet, &mac, PLAIN).await;

    let asked = needs(&fleet, &fleet.admin).await;
    let answered = fleet.coordinator.answer(&fleet.admin, job, None, "red").await.unwrap();
    let again = fleet.coordinator.answer(&fleet.admin, job, None, "blue").await;

    let [need] = asked.items.as_slice() else { panic!("{asked:?}") };
    assert_eq!((need.kind, need.job_id, asked.total), (NeedKind::Question, Some(job), 1));
    assert_eq!((need.text.as_str(), need.title.as_str()), ("asks: Which brick? Red or blue?", "Mend the gate"));
    assert_eq!(need.actions, [NeedAction::Answer, NeedAction::Cancel]);
    assert_eq!(answered.stage, StageName::Queued);
    assert!(matches!(again, Err(Error::Refused(Refusal::NoQuestion))), "{again:?}");
    assert_eq!(needs(&fleet, &fleet.admin).await.total, 0);
}

// [J10]
#[tokio::test]
async fn a_failure_is_listed_until_it_is_dismissed() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = hopeless(&fleet, &mac).await;
    let cancelled = fleet.submit(PLAIN).await;
    fleet.act(cancelled, Action::Cancel).await.unwrap();

    let listed = needs(&fleet, &fleet.admin).await;
    fleet.coordinator.dismiss(&fleet.admin, job, None, None).await.unwrap();
    let dismissed = needs(&fleet, &fleet.admin).await;
    fleet.act(job, Action::Requeue).await.unwrap();
    let grip = mac.build(&fleet, job).await;
    mac.fail(&fleet, grip, FailureReason::VerifyFailed).await.unwrap();
    let failed_again = needs(&fleet, &fleet.admin).await;

    assert_eq!((kinds(&listed), listed.items[0].job_id), (vec![NeedKind::DeadLetter], Some(job)));
    assert_eq!(listed.items[0].actions, [NeedAction::Redrive, NeedAction::Dismiss]);
    assert_eq!((kinds(&dismissed), dismissed.total), (vec![], 0));
    assert_eq!(kinds(&failed_again), [NeedKind::DeadLetter]);
}

#[tokio::test]
async fn finished_work_is_listed_until_it_ships() {
    let fleet = Fleet::warm(quick()).await;
    let offers = Offers { repos: ["notes".parse().unwrap()].into(), ..Offers::default() };
    let mac = Machine::join_with(&fleet, "mac", offers).await;
    let job = fleet.submit(IN_REPO).await;
    let grip = mac.build(&fleet, job).await;
    let order = mac.complete(&fleet, grip, Some(sha(1))).await.unwrap().promote.unwrap();
    let promoting = needs(&fleet, &fleet.admin).await;
    mac.promote(&fleet, Grip { job, epoch: order.lease_epoch }, ErrandOutcome::Done).await.unwrap();

    let ready = needs(&fleet, &fleet.admin).await;
    fleet.ship_everything().await;
    let shipping = needs(&fleet, &fleet.admin).await;

    assert_eq!(kinds(&promoting), []);
    assert_eq!(kinds(&ready), [NeedKind::ReadyToShip]);
    assert_eq!(kinds(&shipping), []);
}

// [T3] [I12]
#[tokio::test]
async fn needs_and_their_actions_follow_the_callers_role() {
    let fleet = Fleet::warm(quick()).await;
    for product in ["alpha", "beta"] {
        let id = product.parse().unwrap();
        fleet.coordinator.put_product(&fleet.admin, &id, ProductSettings::default()).await.unwrap();
    }
    let mac = Machine::join(&fleet, "mac").await;
    asking(&fleet, &mac, "---\ntitle: Asks\nproduct: alpha\n---\nAsk.\n").await;
    let as_a = |grant| Principal { grant, ..fleet.admin.clone() };
    let products = |name: &str| [name.parse().unwrap()].into();

    let operator = needs(&fleet, &as_a(TokenScope::Operator { products: products("alpha") })).await;
    let viewer = needs(&fleet, &as_a(TokenScope::Viewer { products: products("alpha") })).await;
    let foreign = as_a(TokenScope::Operator { products: products("beta") });
    let nothing = needs(&fleet, &foreign).await;
    let filter = NeedsFilter { products: vec!["alpha".parse().unwrap()], ..NeedsFilter::default() };
    let refused = fleet.coordinator.needs_me(&foreign, filter, None, 10).await;

    assert_eq!(operator.items[0].actions, [NeedAction::Answer, NeedAction::Cancel]);
    assert_eq!((kinds(&viewer), viewer.items[0].actions.len()), (vec![NeedKind::Question], 0));
    assert_eq!((nothing.items.len(), nothing.total), (0, 0));
    assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");
}

#[tokio::test]
async fn pages_continue_where_the_last_one_ended() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let failed = [hopeless(&fleet, &mac).await, hopeless(&fleet, &mac).await];
    let asks = asking(&fleet, &mac, PLAIN).await;

    let (mut seen, mut next, mut totals) = (Vec::new(), None, Vec::new());
    loop {
        let page = fleet.coordinator.needs_me(&fleet.admin, NeedsFilter::default(), next, 1).await.unwrap();
        seen.extend(page.items.iter().filter_map(|need| need.job_id));
        totals.push(page.total);
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    let filter = NeedsFilter { kinds: vec![NeedKind::DeadLetter], ..NeedsFilter::default() };
    let filtered = fleet.coordinator.needs_me(&fleet.admin, filter, None, 10).await.unwrap();

    assert_eq!((seen[0], seen.len(), totals), (asks, 3, vec![3, 3, 3]), "people who wait come first");
    assert!(failed.iter().all(|job| seen.contains(job)));
    assert_eq!((filtered.total, kinds(&filtered)), (2, vec![NeedKind::DeadLetter; 2]));
}
