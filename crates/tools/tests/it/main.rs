//! Tool servers as real processes: good ones of both eras, and every broken one of the gallery.
#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]
#![expect(clippy::print_stdout, reason = "a test that measures says what it has measured")]
#![expect(deprecated, reason = "older servers take samples, whatever the newest version advises")]

mod announced;
mod bridging;
mod callers;
mod calls;
mod cancelled;
mod checked;
mod completed;
mod confirmed;
mod environment;
mod gateway;
mod hostile;
mod house;
mod kept;
mod killed;
mod limits;
mod logged;
mod meetings;
mod office;
mod over_http;
mod patience;
mod pipe;
mod progress;
mod sessions;
mod subscribed;
mod turns;
mod uncertain;
mod unread;
mod unusable;
mod versions;
