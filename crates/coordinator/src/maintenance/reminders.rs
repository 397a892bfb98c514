//! Reminders of reviews and questions that wait, and the expiry of questions [T5][B6].
//!
//! The sweep looks at memory only: a wait costs no store operation between two reminders.

use std::time::Duration;

use domain::{BlockedOn, Job, JobId, Stage, StageEvent, Timestamp};
use tracing::{info, warn};

use crate::commit::{AmendOutcome, Decision};
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::error::Error;

/// Reminders of one wait. With doubled pauses from four hours, the last one comes after five days.
const REMINDERS_MAX: u32 = 5;

/// Jobs per sweep; the next one continues.
const AT_ONCE_MAX: usize = 200;

/// What is due for a job that waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Reminder,
    Expiry,
}

impl Coordinator {
    /// Records due reminders, and fails jobs whose question has expired. Idempotent.
    pub(crate) async fn remind_people(&self) {
        let due: Vec<JobId> = {
            let (state, now) = (self.state.lock(), self.now());
            let jobs = state.jobs_needing_people().map(|job| &*job.value);
            jobs.filter(|job| self.due_of(job, now).is_some()).map(Job::id).take(AT_ONCE_MAX).collect()
        };
        for id in due {
            if let Err(error) = self.remind(id).await {
                warn!(job.id = %id, %error, "Could not record the reminder of job {}, the sweep retries", self.label(id));
            }
        }
    }

    async fn remind(&self, id: JobId) -> Result<(), Error> {
        let reminding = self.try_amend(id, |job| {
            let now = self.now();
            match self.due_of(&job, now) {
                Some(Due::Reminder) => Ok(Decision::Write(job.reminded(now, COORDINATOR))),
                Some(Due::Expiry) => {
                    let after = self.settings.question_expires_after.unwrap_or_default();
                    let message = format!("its question was not answered within {}", in_words(after));
                    job.apply(StageEvent::QuestionExpired { message }, now, COORDINATOR).map(Decision::Write)
                }
                None => Ok(Decision::Keep),
            }
        });
        if let AmendOutcome::Written(job) = reminding.await? {
            let (label, stage) = (job.value.label(), job.value.stage().name());
            info!(job.id = %id, job.stage = %stage, "Job {label} has waited for a person for long, now {stage}");
            self.after_report(&job.value).await;
        }
        Ok(())
    }

    fn due_of(&self, job: &Job, now: Timestamp) -> Option<Due> {
        let wait = job.person_wait()?;
        let waited = now.since(wait.since);
        let is_question = matches!(job.stage(), Stage::Blocked { on: BlockedOn::Question(_) });
        if is_question && self.settings.question_expires_after.is_some_and(|after| waited >= after) {
            return Some(Due::Expiry);
        }
        let pause = self.settings.remind_after.saturating_mul(1 << wait.reminders.min(REMINDERS_MAX));
        (wait.reminders < REMINDERS_MAX && waited >= pause).then_some(Due::Reminder)
    }
}

/// `2h`, `7d`
fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds >= 86_400 && seconds % 86_400 == 0 => domain::counted(seconds / 86_400, "day"),
        seconds if seconds >= 3_600 && seconds % 3_600 == 0 => domain::counted(seconds / 3_600, "hour"),
        seconds if seconds >= 60 && seconds % 60 == 0 => domain::counted(seconds / 60, "minute"),
        seconds => domain::counted(seconds, "second"),
    }
}
