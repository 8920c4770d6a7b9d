//! The task of one connection: the only async shell over the pure exchange. Handles change the exchange under its lock
//! and ring; this loop moves bytes and time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use supervise::Ladder;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::callbacks::Callbacks;
use crate::exchange::Exchange;
use crate::transport::{End, Reading, Ready, Transport};

/// What the handles and the task of one connection share.
pub(crate) struct Shared {
    exchange: Mutex<Exchange>,
    /// Rung when the exchange has something new to send, or should end.
    bell: Notify,
    stop: Mutex<Option<Ladder>>,
    end: watch::Sender<Option<Arc<End>>>,
}

impl Shared {
    pub(crate) fn new(exchange: Exchange) -> Self {
        Self {
            exchange: Mutex::new(exchange),
            bell: Notify::new(),
            stop: Mutex::new(None),
            end: watch::Sender::new(None),
        }
    }

    /// The exchange. Nothing is awaited under this lock, and no code of others runs under it but wakers.
    pub(crate) fn exchange(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the exchange, and sends what follows from it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Exchange) -> T) -> T {
        let changed = change(&mut self.exchange());
        self.bell.notify_one();
        changed
    }

    /// Asks the task to stop the worker.
    pub(crate) fn stop(&self, ladder: Ladder) {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(ladder);
        self.bell.notify_one();
    }

    /// How the connection ended, once it has.
    pub(crate) async fn ended(&self) -> Arc<End> {
        let mut end = self.end.subscribe();
        let end = end.wait_for(Option::is_some).await.expect("the sender is in self");
        Arc::clone(end.as_ref().expect("waited for"))
    }

    fn stop_wanted(&self) -> Option<Ladder> {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the connection until the worker is gone or somebody stops it.
pub(crate) async fn drive(shared: Arc<Shared>, mut transport: Transport, callbacks: Arc<Callbacks>) {
    let _unfinished = Unfinished(Arc::clone(&shared));
    // Owned here, so that no callback outlives its connection.
    let mut deciding = JoinSet::new();
    let ladder = loop {
        if let Some(ladder) = shared.stop_wanted() {
            // Nobody has to wait for the ladder who only waits for a turn.
            shared.exchange().end("the connection was stopped");
            break ladder;
        }
        let (wake, reading, asked) = {
            let mut exchange = shared.exchange();
            step(&mut exchange, &mut transport);
            let Exchange { connection, tap, .. } = &mut *exchange;
            transport.transmit(connection, tap.as_mut());
            let reading = if exchange.connection.wants_read() { Reading::Wanted } else { Reading::Paused };
            (exchange.poll_timeout().map(Instant::from_std), reading, exchange.take_asked())
        };
        // Not under the lock: a runtime that shuts down drops what is spawned at once, and that wants the lock.
        for asked in asked {
            callbacks.decide(asked, &shared, &mut deciding);
        }
        // Here and not below, where a worker that floods would not let it come to that.
        while deciding.try_join_next().is_some() {}
        // Biased: deadlines first, so that a worker that floods cannot starve them. What handles want is sent above
        // in every round, so the bell may come last.
        tokio::select! {
            biased;
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                shared.exchange().handle_timeout(Instant::now().into_std());
            }
            ready = transport.ready(reading) => if matches!(ready, Ready::Ended) {
                break Ladder::default();
            },
            () = shared.bell.notified() => {}
        }
    };
    close(&shared, &mut transport);
    let deafness = transport.deafness().map(|cause| cause + ". ").unwrap_or_default();
    let end = transport.stop(ladder).await;
    shared.exchange().end(&format!("{deafness}{end}"));
    shared.end.send_replace(Some(Arc::new(end)));
}

/// However the task ends, by a panic or with its runtime, nobody is left waiting for it.
struct Unfinished(Arc<Shared>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let mut exchange = self.0.exchange();
        exchange.connection.close();
        exchange.advance(0, Instant::now().into_std());
        exchange.end(&End::Dropped.to_string());
        drop(exchange);
        self.0.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert_with(|| Arc::new(End::Dropped));
            is_first
        });
    }
}

/// What was read becomes what it means; the connection takes it in portions.
fn step(exchange: &mut Exchange, transport: &mut Transport) {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    loop {
        transport.feed(&mut exchange.connection, exchange.tap.as_mut());
        if exchange.advance(unix.as_secs(), Instant::now().into_std()) == 0 {
            return;
        }
    }
}

/// The worker's last words still count; then every call is settled.
fn close(shared: &Shared, transport: &mut Transport) {
    let mut exchange = shared.exchange();
    step(&mut exchange, transport);
    exchange.connection.handle_eof();
    step(&mut exchange, transport);
}
