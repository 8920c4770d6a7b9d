//! Damage at random places: either the store is refused and left as it is, or every approval in it is as it was written.

use std::fs;

use fastrand::Rng;
use store::{Approval, Change, Limits, Store};

use crate::support::{Place, allowed, approvals, called, offered, pending, response, run, scale, thread};

/// Every second one decided, among rows of other kinds.
fn written() -> Vec<Approval> {
    let both = (0..80).map(|number| {
        let id = format!("{number:03}");
        if number % 2 == 0 { pending(&id) } else { allowed(&id) }
    });
    both.collect()
}

async fn bytes_of_a_store() -> Vec<u8> {
    let place = Place::new();
    let store = place.open();
    store.commit(written().into_iter().map(Change::Approval).collect()).await.unwrap();
    store.commit((0..40).map(|id| Change::Thread(thread(&id.to_string()))).collect()).await.unwrap();
    store.commit((0..40).map(|id| Change::Response(response(&id.to_string(), "k"))).collect()).await.unwrap();
    store.commit((0..40).map(|id| Change::ToolCall(called(&id.to_string(), "files", "read"))).collect()).await.unwrap();
    store.commit((0..10).map(|server| Change::ToolList(offered(&server.to_string()))).collect()).await.unwrap();
    store.close().await.unwrap();
    fs::read(&place.path).unwrap()
}

/// Whether the damaged file was opened; if so it is as good as whole.
async fn opens(bytes: &[u8], what: &str) -> bool {
    let place = Place::new();
    fs::write(&place.path, bytes).unwrap();
    match Store::open(&place.path, Limits::default()) {
        Err(error) => {
            assert_eq!(place.names(), ["switchboard.db"], "{what}: {error}");
            assert!(fs::read(&place.path).unwrap() == bytes, "{what}: {error}");
            false
        }
        Ok(store) => {
            assert_eq!(approvals(&store).await, written(), "{what}");
            store.close().await.unwrap();
            true
        }
    }
}

#[test]
fn a_truncated_store_is_never_opened() {
    run(async {
        let bytes = bytes_of_a_store().await;
        for seed in 0..40 * u64::from(scale()) {
            let length = Rng::with_seed(seed).usize(0..bytes.len());
            assert!(!opens(&bytes[..length], &format!("{length} of {} bytes", bytes.len())).await);
        }
    });
}

#[test]
fn a_store_with_flipped_bits_is_refused_or_whole() {
    run(async {
        let bytes = bytes_of_a_store().await;
        let mut refused = 0;
        for seed in 0..150 * u64::from(scale()) {
            let mut random = Rng::with_seed(seed);
            let mut damaged = bytes.clone();
            for _ in 0..random.u8(1..4) {
                damaged[random.usize(0..bytes.len())] ^= 1 << random.u8(0..8);
            }
            refused += u32::from(!opens(&damaged, &format!("seed {seed}")).await);
        }
        assert!(refused > 0, "not one of the damages was seen");
    });
}

/// A log that was cut off or spoiled is read up to there: what is left is what the store was after some commit.
#[test]
fn a_spoiled_log_is_read_as_far_as_it_is_whole() {
    run(async {
        let place = Place::new();
        let store = place.open();
        for number in 0..30 {
            let id = format!("{number:03}");
            let mut changes = vec![Change::Approval(pending(&id))];
            if number > 0 {
                changes.push(Change::Approval(allowed(&format!("{:03}", number - 1))));
            }
            store.commit(changes).await.unwrap();
        }
        let files = place.files();
        let (file, log) = (&files["switchboard.db"], &files["switchboard.db-wal"]);
        for seed in 0..40 * u64::from(scale()) {
            let mut random = Rng::with_seed(seed);
            let copy = Place::new();
            fs::write(&copy.path, file).unwrap();
            let mut log = log.clone();
            let at = random.usize(0..log.len());
            if random.bool() {
                log.truncate(at);
            } else {
                log[at] ^= 1 << random.u8(0..8);
            }
            fs::write(copy.path.with_file_name("switchboard.db-wal"), log).unwrap();
            let store = copy.open();
            let mut left = approvals(&store).await;
            let last = left.pop();
            let ids = |count: usize| (0..count).map(|number| format!("{number:03}"));
            assert_eq!(left, ids(left.len()).map(|id| allowed(&id)).collect::<Vec<_>>(), "seed {seed}");
            assert!(last.is_none_or(|last| last == pending(&format!("{:03}", left.len()))), "seed {seed}");
        }
    });
}
