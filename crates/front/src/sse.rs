//! A log as a response of server-sent events: bytes that are ready are sent as they are, many in one piece, and a comment
//! keeps the connection alive while there is nothing to say. Events have `id` lines here, because they can be replayed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;

use crate::keys::Revocation;
use crate::log::Log;
use crate::metrics::Counted;
use crate::ring::Cursor;

/// How much is sent in one piece.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// One reader of a log.
pub(crate) struct Reader {
    pub log: Arc<Log>,
    pub cursor: Cursor,
    /// How often it says that it is alive.
    pub heartbeat: Duration,
    /// Ends it, also while there is nothing to read.
    pub revocation: Revocation,
    /// Counts it while it reads.
    #[expect(dead_code, reason = "it counts by living")]
    pub counted: Counted,
}

impl Reader {
    pub(crate) fn into_response(self) -> Response {
        let news = self.log.news();
        let pieces = futures_util::stream::unfold(Some((self, news)), |reading| async {
            let (reader, news) = reading?;
            reader.next(news).await.map(|(piece, rest)| (Ok::<_, Infallible>(piece), rest))
        });
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-store"),
            // What proxies of the nginx kind understand: pass it on as it comes.
            (header::HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        (headers, Body::from_stream(pieces)).into_response()
    }

    async fn next(mut self, mut news: watch::Receiver<()>) -> Option<(Bytes, Option<(Self, watch::Receiver<()>)>)> {
        loop {
            if self.revocation.is_done() {
                return None;
            }
            news.mark_unchanged();
            let read = self.log.read(self.cursor, PIECE_BYTES_MAX);
            self.cursor = read.cursor;
            if !read.bytes.is_empty() {
                let rest = (!read.is_last).then_some((self, news));
                return Some((read.bytes.into(), rest));
            }
            if read.is_last {
                return None;
            }
            tokio::select! {
                changed = news.changed() => changed.ok()?,
                () = self.revocation.done() => return None,
                () = tokio::time::sleep(self.heartbeat) => {
                    return Some((Bytes::from_static(b":\n\n"), Some((self, news))));
                }
            }
        }
    }
}
