//! The one thread that writes. It takes everything that waits, writes it in one transaction and then answers all, so that
//! many commits cost one fsync; a savepoint around each keeps a bad one from harming the others.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use rusqlite::{Connection, ErrorCode, Savepoint, TransactionBehavior};
use tokio::sync::watch;

use crate::apply::apply;
use crate::backoff::Backoff;
use crate::behind::Noted;
use crate::clock;
use crate::desk::{Desk, Request, Retry, Round, Work};
use crate::error::WriteError;
use crate::health::Health;
use crate::sweep;

/// Room that there must be before a degraded store is called well again.
const PROBE_BYTES: u32 = 64 << 10;

pub(crate) struct Writer {
    pub(crate) desk: Arc<Desk>,
    pub(crate) connection: Connection,
    /// Dropped after the connection: whoever sees it closed knows that the file is too.
    pub(crate) health: watch::Sender<Health>,
    pub(crate) backoff: Backoff,
    /// Set while the store is degraded.
    pub(crate) retry_at: Option<Instant>,
    pub(crate) path: PathBuf,
}

/// How much was done, or why nothing.
type Outcome = Result<u64, WriteError>;

/// What is done wholly or not at all.
enum Unit<'a> {
    Notes(&'a [Noted]),
    Work(&'a Work),
}

impl Writer {
    /// Writes until the desk is closed and empty, or until nothing more can be written at its end.
    pub(crate) fn run(mut self) {
        while let Some(round) = self.desk.next_round(self.retry_at) {
            let notes = self.perform(round);
            if notes.is_err() && self.desk.is_closing() {
                break;
            }
        }
    }

    /// Does one round and says what became of its notes.
    fn perform(&mut self, mut round: Round) -> Outcome {
        let probed = if round.retry == Retry::Due { self.probe() } else { Ok(()) };
        if probed.is_err() {
            self.desk.take_back(mem::take(&mut round.notes));
        }
        let (written, requests) = self.write(&round.notes, &round.requests);
        let notes = probed.and(written);
        let failure = requests.iter().chain([&notes]).find_map(failure_of).cloned();
        self.settle_notes(round.notes, &notes);
        self.judge(failure.as_ref(), round.retry);
        for (request, outcome) in round.requests.into_iter().zip(requests) {
            self.settle(request, outcome, &notes);
        }
        notes
    }

    /// All in one transaction; should that fail, each in its own, so that what can be done is done.
    fn write(&mut self, notes: &[Noted], requests: &[Request]) -> (Outcome, Vec<Outcome>) {
        let works = requests.iter().map(|request| Unit::Work(&request.work));
        let units: Vec<_> = [Unit::Notes(notes)].into_iter().chain(works).collect();
        let mut outcomes = match self.transact(&units) {
            Ok(outcomes) => outcomes,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                vec![Err(WriteError::of(&error)); units.len()]
            }
            Err(_) => units.chunks(1).map(|unit| self.transact_one(unit)).collect(),
        };
        (outcomes.remove(0), outcomes)
    }

    fn transact_one(&mut self, unit: &[Unit<'_>]) -> Outcome {
        match self.transact(unit) {
            Ok(outcomes) => outcomes.into_iter().next().unwrap_or(Ok(0)),
            Err(error) => Err(WriteError::of(&error)),
        }
    }

    fn transact(&mut self, units: &[Unit<'_>]) -> rusqlite::Result<Vec<Outcome>> {
        let mut transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut outcomes = Vec::with_capacity(units.len());
        for unit in units {
            outcomes.push(attempt(transaction.savepoint()?, |savepoint| carry_out(savepoint, unit))?);
        }
        transaction.commit()?;
        self.desk.count(|counts| counts.transactions += 1);
        Ok(outcomes)
    }

    /// Whether there is room and not only a free place within a page: grows the file, durably, and empties that again.
    fn probe(&self) -> Result<(), WriteError> {
        let fill = "INSERT OR REPLACE INTO probe (id, filling) VALUES (1, randomblob(?))";
        let filled = self.connection.execute(fill, [PROBE_BYTES]);
        let emptied = filled.and_then(|_| self.connection.execute("DELETE FROM probe", []));
        emptied.map(drop).map_err(|error| WriteError::of(&error))
    }

    fn settle_notes(&self, notes: Vec<Noted>, outcome: &Outcome) {
        match outcome {
            Err(_) => self.desk.take_back(notes),
            Ok(written) => self.desk.count(|counts| {
                counts.notes_written += written;
                counts.notes_dropped += notes.len() as u64 - written;
            }),
        }
    }

    fn settle(&self, request: Request, outcome: Outcome, notes: &Outcome) {
        let outcome = match (&request.work, outcome) {
            (Work::Commit(changes), Ok(done)) => {
                self.desk.supersede(changes, request.number);
                self.desk.count(|counts| counts.commits += 1);
                Ok(done)
            }
            (Work::Flush { before }, Ok(_)) => notes.clone().map(|_| self.desk.notes_before(*before)),
            (_, outcome) => outcome,
        };
        // Whoever asked may have gone; what was done is done.
        let _ = request.answer.send(outcome);
    }

    /// Health after a round. Only a probe ends a bad time: a small commit may fit into a disk that is as good as full.
    fn judge(&mut self, failure: Option<&WriteError>, retry: Retry) {
        match failure {
            Some(error) => {
                if self.retry_at.is_none() || retry == Retry::Due {
                    self.retry_at = Some(Instant::now() + self.backoff.next());
                }
                let reason = format!("{}: {error}", self.path.display()).into();
                self.health.send_replace(Health::Degraded { reason });
            }
            None if retry == Retry::Due => {
                self.retry_at = None;
                self.backoff.reset();
                self.health.send_replace(Health::Well);
            }
            None => {}
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.desk.abandon();
    }
}

fn failure_of(outcome: &Outcome) -> Option<&WriteError> {
    outcome.as_ref().err().filter(|error| !error.is_of_the_change())
}

/// What is the change's own fault is its outcome, with nothing of it done; any other error is everyone's.
fn attempt(
    mut savepoint: Savepoint<'_>,
    act: impl FnOnce(&mut Savepoint<'_>) -> rusqlite::Result<u64>,
) -> rusqlite::Result<Outcome> {
    match act(&mut savepoint) {
        Ok(done) => savepoint.commit().map(|()| Ok(done)),
        Err(error) => {
            let own = WriteError::of(&error);
            if !own.is_of_the_change() {
                return Err(error);
            }
            savepoint.finish()?;
            Ok(Err(own))
        }
    }
}

fn carry_out(savepoint: &mut Savepoint<'_>, unit: &Unit<'_>) -> rusqlite::Result<u64> {
    match unit {
        Unit::Notes(notes) => write_notes(savepoint, notes),
        Unit::Work(Work::Flush { .. }) => Ok(0),
        Unit::Work(Work::Commit(changes)) => {
            changes.iter().try_for_each(|change| apply(savepoint, change))?;
            Ok(0)
        }
        Unit::Work(Work::Sweep(slice)) => sweep::remove(savepoint, slice),
        Unit::Work(Work::ObserveClock(reading)) => clock::observe(savepoint, *reading).map(i64::cast_unsigned),
        Unit::Work(Work::PagesMax(pages)) => {
            savepoint.pragma_update_and_check(None, "max_page_count", pages, |row| row.get::<_, u32>(0)).map(u64::from)
        }
    }
}

/// Nobody waits for a note, so one that is rejected is left out and the others are written.
fn write_notes(savepoint: &mut Savepoint<'_>, notes: &[Noted]) -> rusqlite::Result<u64> {
    let mut written = 0;
    for Noted { change, .. } in notes {
        let outcome = attempt(savepoint.savepoint()?, |savepoint| apply(savepoint, change).map(|()| 1))?;
        written += outcome.unwrap_or(0);
    }
    Ok(written)
}

#[cfg(test)]
mod tests;
