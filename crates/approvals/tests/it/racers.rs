//! Many decide at once, exactly one wins, and the audit names the others.

use approvals::{Approvals, DecideError, Person, Settings, Verdict};
use tokio::task::JoinSet;

use crate::support::{Place, command, soon};

const RACERS: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_deciders_exactly_one_wins() {
    let place = Place::new(Settings::default()).await;
    for round in 0..10 {
        let ticket = place.ask(command(round, &["touch", "x"])).await;
        let hash = place.view(ticket.id()).await.shown_hash;
        let mut racers = JoinSet::new();
        for number in 0..RACERS {
            racers.spawn(race(place.approvals.clone(), ticket.id().to_owned(), hash.clone(), number));
        }
        let (mut winners, mut losers) = (Vec::new(), 0);
        while let Some(finished) = soon(racers.join_next()).await {
            match finished.unwrap() {
                Ok(decided) => winners.push(decided),
                Err(DecideError::AlreadyDecided { by, verdict }) => {
                    let decided = soon(ticket.decided()).await;
                    assert_eq!((by, verdict), (decided.by, decided.verdict));
                    losers += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!((winners.as_slice(), losers), (&[soon(ticket.decided()).await][..], RACERS - 1));
        let history = place.history(ticket.id()).await;
        assert_eq!(history.matches("decided by person").count(), 1, "{history}");
        assert_eq!(history.matches("too_late by person").count(), RACERS - 1, "{history}");
    }
}

async fn race(
    approvals: Approvals,
    id: String,
    hash: String,
    number: usize,
) -> Result<approvals::Decided, DecideError> {
    let verdict = if number.is_multiple_of(2) { Verdict::Allow } else { Verdict::deny(number.to_string()) };
    approvals.decide(&id, &hash, verdict, Person::operator(number.to_string())).await
}
