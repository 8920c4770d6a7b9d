//! Commits approvals from several sides until it is ended, and prints the id of each when it is durable:
//! what the tests kill.

use std::io::{Write, stdout};

use store::{Approval, ApprovalState, Change, Limits, Store};

const SIDES: u32 = 4;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (path, name) = (args.next().ok_or("which file?")?, args.next().ok_or("which name?")?);
    let store = Store::open(path, Limits::default())?;
    let sides = (0..SIDES).map(|side| commit_and_tell(&store, format!("{name}-{side}")));
    futures_util::future::try_join_all(sides).await?;
    Ok(())
}

async fn commit_and_tell(store: &Store, side: String) -> Result<(), Box<dyn std::error::Error>> {
    for number in 0.. {
        let id = format!("{side}-{number}");
        store.commit(vec![Change::Approval(pending(&id))]).await?;
        writeln!(stdout(), "{id}")?;
    }
    Ok(())
}

fn pending(id: &str) -> Approval {
    Approval {
        id: id.into(),
        group: "main".into(),
        worker: "main-0".into(),
        thread: "thread".into(),
        turn: "turn".into(),
        item: None,
        request: "1".into(),
        method: "item/commandExecution/requestApproval".into(),
        kind: "command".into(),
        key: "key".into(),
        params: "{}".into(),
        shown_hash: "hash".into(),
        state: ApprovalState::Pending,
        verdict: None,
        reason: None,
        decided_by: None,
        created_at: 0,
        deadline_at: None,
        decided_at: None,
    }
}
