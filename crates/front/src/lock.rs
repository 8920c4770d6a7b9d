//! Locks that a panic does not close: what they guard is whole after every statement, so whoever comes next can go on.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whoever panicked with it before.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
