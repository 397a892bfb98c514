//! The transition table as a golden grid of stages and events.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use domain::{Actor, ErrandState, Job, Stage, StageName};

use super::sample::{NOW, fitting, situations};
use crate::golden;

// [J5]
#[test]
fn the_transition_table_matches_the_golden_grid() {
    let mut grid = String::from(
        "What becomes of a job in each situation when each event happens to it, shown with the right, the epoch and\n\
         the number that fit it. Whatever is not listed is refused: the reason is at the end of each block.\n",
    );

    for (situation, job) in situations() {
        write_block(&mut grid, situation, &job);
    }

    golden::check("stage_grid.txt", &grid);
}

// [J5]
#[test]
fn moves_match_the_transition_table() {
    let mut allowed: Vec<(StageName, BTreeSet<StageName>)> =
        StageName::ALL.into_iter().map(|stage| (stage, BTreeSet::new())).collect();

    for (_, job) in situations() {
        let from = job.stage().name();
        for (_, event) in fitting(&job) {
            let Ok(after) = job.clone().apply(event, NOW, Actor::Coordinator) else { continue };
            let to = after.stage().name();
            if let Some((_, moves)) = allowed.iter_mut().find(|(stage, _)| *stage == from && to != from) {
                moves.insert(to);
            }
        }
    }

    let said: Vec<(StageName, BTreeSet<StageName>)> =
        StageName::ALL.into_iter().map(|stage| (stage, stage.moves().iter().copied().collect())).collect();
    assert_eq!(said, allowed);
}

#[test]
fn every_stage_has_a_situation_in_the_grid() {
    let shown: BTreeSet<StageName> = situations().iter().map(|(_, job)| job.stage().name()).collect();

    assert_eq!(shown, StageName::ALL.into_iter().collect());
}

fn write_block(grid: &mut String, situation: &str, job: &Job) {
    writeln!(grid, "\n{situation} (epoch {})", job.epoch()).unwrap();
    let mut refused: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, event) in fitting(job) {
        match job.clone().apply(event, NOW, Actor::Coordinator) {
            Ok(after) => writeln!(grid, "  {name:<25} -> {}", shown(&after)).unwrap(),
            Err(refusal) => {
                let why = refusal_kind(&refusal);
                match refused.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, names)) => names.push(name),
                    None => refused.push((why, vec![name])),
                }
            }
        }
    }
    for (why, names) in refused {
        writeln!(grid, "  refused, {why}: {}", names.join("; ")).unwrap();
    }
}

fn shown(job: &Job) -> String {
    let stage = job.stage().name();
    let more = match job.stage() {
        Stage::Queued { dispatch: Some(offer), .. } => format!(", offer {} out", offer.seq),
        Stage::Queued { not_before: Some(_), .. } => ", not before".to_owned(),
        Stage::Blocked { on } => format!(" on {on:?}"),
        Stage::Failed { reason } | Stage::DeadLetter { reason } => format!(", {reason}"),
        Stage::Review { .. } | Stage::Testing { .. } => errand(job),
        _ => String::new(),
    };
    format!("{stage}{more} (epoch {})", job.epoch())
}

fn errand(job: &Job) -> String {
    let Some(errand) = job.errand() else { return String::new() };
    let state = match &errand.state {
        ErrandState::Waiting { not_before: None } => "waiting",
        ErrandState::Waiting { not_before: Some(_) } => "waiting, not before",
        ErrandState::Dispatched { .. } => "offered",
        ErrandState::Held { .. } => "held",
    };
    let wanted = if matches!(job.stage(), Stage::Testing { ship_wanted: true, .. }) { ", ship wanted" } else { "" };
    format!(", {} {state}{wanted}", errand.kind.name())
}

fn refusal_kind(refusal: &domain::Refusal) -> String {
    match refusal {
        domain::Refusal::IllegalTransition { .. } => "no such move".to_owned(),
        domain::Refusal::NotHolder { .. } => "not the holder".to_owned(),
        domain::Refusal::SupersededDispatch { .. } => "no such offer".to_owned(),
        domain::Refusal::AlreadyGranted => "already granted".to_owned(),
        other => other.to_string(),
    }
}
