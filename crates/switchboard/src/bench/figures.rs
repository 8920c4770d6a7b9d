//! What was measured, as a caller feels it.

use std::time::Duration;

use serde::Serialize;

use crate::print;

/// The figures of one load on one server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) server: String,
    pub(super) load: String,
    pub(super) requests: usize,
    pub(super) requests_per_second: f64,
    /// How long a whole answer took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<Stream>,
}

/// What streams are measured by.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Stream {
    pub(super) deltas: usize,
    pub(super) deltas_per_second: f64,
    /// From the request to the first text.
    pub(super) first_token: Spread,
    /// Between texts that arrive one after the other.
    pub(super) gap: Spread,
}

/// Two percentiles, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Spread {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

impl Spread {
    pub(super) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |hundredths: usize| {
            let time = times.get(times.len().saturating_sub(1) * hundredths / 100);
            time.map_or(0.0, Duration::as_secs_f64) * 1e3
        };
        Self { p50_ms: at(50), p99_ms: at(99) }
    }

    fn median(all: &[Self]) -> Self {
        Self { p50_ms: median(all.iter().map(|one| one.p50_ms)), p99_ms: median(all.iter().map(|one| one.p99_ms)) }
    }
}

impl Figures {
    /// Each figure's median; none of no rounds.
    pub(super) fn median(rounds: &[Self]) -> Option<Self> {
        let first = rounds.first()?.clone();
        let answers: Vec<_> = rounds.iter().filter_map(|round| round.answer).collect();
        let streams: Vec<_> = rounds.iter().filter_map(|round| round.stream).collect();
        let spread = |of: fn(&Stream) -> Spread| Spread::median(&streams.iter().map(of).collect::<Vec<_>>());
        Some(Self {
            requests_per_second: median(rounds.iter().map(|round| round.requests_per_second)),
            answer: first.answer.map(|_| Spread::median(&answers)),
            stream: first.stream.map(|stream| Stream {
                deltas: stream.deltas,
                deltas_per_second: median(streams.iter().map(|stream| stream.deltas_per_second)),
                first_token: spread(|stream| stream.first_token),
                gap: spread(|stream| stream.gap),
            }),
            ..first
        })
    }

    pub(super) fn to_line(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{json}\n")
    }

    fn rate(&self) -> f64 {
        self.stream.map_or(self.requests_per_second, |stream| stream.deltas_per_second)
    }

    fn wait(&self) -> Spread {
        self.stream.map(|stream| stream.first_token).or(self.answer).unwrap_or_default()
    }

    fn cells(&self, compared_with: Option<&Self>) -> [String; 7] {
        let what = if self.stream.is_some() { "deltas/s" } else { "requests/s" };
        let (wait, gap) = (self.wait(), self.stream.map(|stream| stream.gap));
        let ratio = compared_with.map(|other| {
            format!("{:.2}× rate, {:.2}× p50", self.rate() / other.rate(), wait.p50_ms / other.wait().p50_ms)
        });
        [
            self.load.clone(),
            self.server.clone(),
            format!("{:.0} {what}", self.rate()),
            format!("{:.2} ms", wait.p50_ms),
            format!("{:.2} ms", wait.p99_ms),
            gap.map_or_else(|| "–".into(), |gap| format!("{:.2} / {:.2} ms", gap.p50_ms, gap.p99_ms)),
            ratio.unwrap_or_default(),
        ]
    }
}

/// A table of what was measured: of each load, the servers below each other.
pub(super) fn table(measured: &[Vec<Figures>]) -> String {
    let rows = measured.iter().flat_map(|servers| {
        let first = servers.first();
        servers.iter().enumerate().map(move |(at, figures)| figures.cells(first.filter(|_| at > 0)))
    });
    let heading = ["LOAD", "SERVER", "RATE", "P50", "P99", "GAP P50 / P99", "AGAINST THE FIRST"];
    let table = print::table(heading, &rows.collect::<Vec<_>>());
    format!("{table}P50 and P99 are of whole answers, and of the time to the first text of streams.\n")
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;

    use super::{Figures, Spread, Stream, table};

    fn figures(server: &str, rate: f64, stream: Option<Stream>) -> Figures {
        let answer = Spread { p50_ms: 100.0 / rate, p99_ms: 1000.0 / rate };
        Figures {
            server: server.into(),
            load: if stream.is_some() { "100 streams" } else { "16 connections" }.into(),
            requests: 512,
            requests_per_second: rate,
            answer: stream.is_none().then_some(answer),
            stream,
        }
    }

    #[test]
    fn servers_stand_below_each_other_with_their_ratios() {
        let gap = Spread { p50_ms: 20.0, p99_ms: 21.5 };
        let stream = |rate| Stream {
            deltas: 500,
            deltas_per_second: rate,
            first_token: Spread { p50_ms: 3.0, p99_ms: 9.0 },
            gap,
        };
        let measured = [
            vec![figures("a", 100.0, None), figures("b", 50.0, None)],
            vec![figures("a", 1.0, Some(stream(5000.0))), figures("b", 1.0, Some(stream(2500.0)))],
        ];
        expect![[r#"
            LOAD            SERVER  RATE            P50      P99       GAP P50 / P99     AGAINST THE FIRST
            16 connections  a       100 requests/s  1.00 ms  10.00 ms  –
            16 connections  b       50 requests/s   2.00 ms  20.00 ms  –                 0.50× rate, 2.00× p50
            100 streams     a       5000 deltas/s   3.00 ms  9.00 ms   20.00 / 21.50 ms
            100 streams     b       2500 deltas/s   3.00 ms  9.00 ms   20.00 / 21.50 ms  0.50× rate, 1.00× p50
            P50 and P99 are of whole answers, and of the time to the first text of streams.
        "#]]
        .assert_eq(&table(&measured));
    }

    #[test]
    fn each_figure_is_the_median_of_its_rounds() {
        let rounds = [3.0, 1.0, 2.0].map(|rate| figures("a", rate, None));
        assert_eq!(Figures::median(&rounds).unwrap().requests_per_second, 2.0);
        assert!(Figures::median(&[]).is_none());
        let times = (1..=100).map(Duration::from_millis).collect();
        let Spread { p50_ms, p99_ms } = Spread::of(times);
        assert_eq!((p50_ms, p99_ms), (50.0, 99.0));
    }
}
