//! Two connections talk over a lossless pipe: random chunks, delays, floods, stalls, garbage, and a close.
//!
//! Each seed is one whole life of a link. What must hold at its end: every call settled exactly once on its side,
//! every request seen by a peer was answered at most once, an answer carries what was asked, notifications arrive in
//! the order in which they were sent, and exactly the garbage was reported as faulty.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use wire::{CallId, Connection, Event, Fault, Json, JsonRpcField, Limits, Outcome, RequestId};

use crate::scale;

const STEPS: usize = 400;

#[test]
fn two_connections_agree_whatever_the_pipe_does() {
    let seeds = 1000 * u64::from(scale());
    let mut answered = 0;
    for seed in 0..seeds {
        let result = std::panic::catch_unwind(|| World::new(seed).run());
        answered += result.unwrap_or_else(|_| panic!("seed {seed} failed: run `World::new({seed}).run()`"));
    }
    assert!(answered > 2 * seeds, "only {answered} calls were answered in {seeds} lives");
}

struct World {
    random: fastrand::Rng,
    now: Instant,
    sides: [Side; 2],
    /// `pipes[0]` is what side 0 has written and side 1 has not yet read.
    pipes: [VecDeque<u8>; 2],
    /// Lines of garbage put into the pipe towards that side.
    garbage: [u64; 2],
}

struct Side {
    connection: Connection,
    calls: HashMap<CallId, u64>,
    settled: u64,
    answered: u64,
    open_requests: Vec<(RequestId, u64)>,
    unread: Vec<u8>,
    told: u64,
    heard: u64,
    asked: u64,
    garbage: u64,
    is_closed: bool,
    is_over: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        #[expect(clippy::disallowed_methods, reason = "any instant will do as zero")]
        let now = Instant::now();
        let sides = std::array::from_fn(|_| Side::new(&mut random));
        Self { random, now, sides, pipes: Default::default(), garbage: [0; 2] }
    }

    /// Lives to the end, and says how many calls were answered.
    fn run(mut self) -> u64 {
        for _ in 0..STEPS {
            self.step();
        }
        self.settle_down();
        for (side, garbage) in self.sides.iter().zip(self.garbage) {
            assert!(side.is_over);
            assert!(side.garbage == garbage || side.is_closed && side.garbage < garbage);
            assert_eq!(side.settled, side.calls.len() as u64, "calls that never settled");
        }
        let [one, other] = &self.sides;
        if !one.is_closed && !other.is_closed {
            assert_eq!((one.heard, other.heard), (other.told, one.told), "notifications were lost");
        }
        one.answered + other.answered
    }

    fn step(&mut self) {
        let at = self.random.usize(..2);
        match self.random.u32(..100) {
            0..20 => self.sides[at].call(&mut self.random, self.now),
            20..35 => self.sides[at].tell(),
            35..50 => self.sides[at].answer(&mut self.random),
            50..70 => self.carry(at),
            70..90 => self.read(at),
            90..93 => {
                self.now += Duration::from_millis(self.random.u64(..400));
                self.sides[at].connection.handle_timeout(self.now);
            }
            93..95 => self.sides[at].cancel(&mut self.random),
            95..97 => (0..self.random.u64(..200)).for_each(|_| self.sides[at].tell()),
            97 => self.spoil(at),
            98 if self.random.u32(..20) == 0 => self.sides[at].close(),
            _ => {}
        }
        self.sides[at].take_events(&mut self.random);
    }

    /// Moves lines of one side into its pipe.
    fn carry(&mut self, at: usize) {
        for _ in 0..self.random.u32(..8) {
            let Some(line) = self.sides[at].connection.poll_transmit() else {
                break;
            };
            self.pipes[at].extend(line);
        }
    }

    /// Lets one side read some bytes, cut anywhere.
    fn read(&mut self, at: usize) {
        let pipe = &mut self.pipes[1 - at];
        let count = self.random.usize(..200).min(pipe.len());
        let side = &mut self.sides[at];
        side.unread.extend(pipe.drain(..count));
        side.offer();
    }

    /// Puts a whole line of garbage between two lines of a pipe.
    fn spoil(&mut self, at: usize) {
        let pipe = &mut self.pipes[1 - at];
        if pipe.back().is_none_or(|last| *last == b'\n') && self.sides[at].unread.is_empty() {
            let garbage: [&[u8]; 5] = [b"\xff\xfe", b"{\"id\":", b"[]", b"null", &[b'x'; 300]];
            pipe.extend(self.random.choice(garbage).unwrap_or_default());
            pipe.push_back(b'\n');
            self.garbage[at] += 1;
        }
    }

    /// Delivers what is under way, then ends both streams.
    fn settle_down(&mut self) {
        for _ in 0..3 {
            for at in 0..2 {
                while let Some(line) = self.sides[at].connection.poll_transmit() {
                    self.pipes[at].extend(line);
                }
                let bytes: Vec<u8> = self.pipes[at].drain(..).collect();
                let other = &mut self.sides[1 - at];
                other.unread.extend(bytes);
                while !other.unread.is_empty() {
                    other.offer();
                    other.take_all_events();
                }
            }
        }
        for at in 0..2 {
            self.sides[at].connection.handle_eof();
            self.sides[at].take_all_events();
        }
    }
}

impl Side {
    fn new(random: &mut fastrand::Rng) -> Self {
        let limits = Limits {
            line_bytes_max: 200,
            depth_max: 8,
            calls_max: random.usize(1..10),
            queued_bytes_max: random.usize(200..4000),
            requests_max: random.usize(1..20),
            events_max: random.usize(1..50),
            event_bytes_max: random.usize(1..4000),
        };
        let field = [JsonRpcField::Omitted, JsonRpcField::Sent][random.usize(..2)];
        Self {
            connection: Connection::new(limits, field),
            calls: HashMap::new(),
            settled: 0,
            answered: 0,
            open_requests: Vec::new(),
            unread: Vec::new(),
            told: 0,
            heard: 0,
            asked: 0,
            garbage: 0,
            is_closed: false,
            is_over: false,
        }
    }

    fn call(&mut self, random: &mut fastrand::Rng, now: Instant) {
        self.asked += 1;
        let deadline = now + Duration::from_millis(random.u64(1..2000));
        if let Ok(call) = self.connection.call("ask", Some(&number(self.asked)), deadline) {
            assert!(self.calls.insert(call, self.asked).is_none());
        }
    }

    fn tell(&mut self) {
        if self.connection.notify("tell", Some(&number(self.told))).is_ok() {
            self.told += 1;
        }
    }

    fn answer(&mut self, random: &mut fastrand::Rng) {
        if self.open_requests.is_empty() {
            return;
        }
        let (id, asked) = self.open_requests.swap_remove(random.usize(..self.open_requests.len()));
        let answered = self.connection.answer(&id, Ok(&number(asked)));
        assert_eq!(answered.is_ok(), !self.is_closed);
        assert!(self.connection.answer(&id, Ok(&number(asked))).is_err());
    }

    fn cancel(&mut self, random: &mut fastrand::Rng) {
        let mut calls: Vec<_> = self.calls.keys().copied().collect();
        calls.sort();
        if let Some(call) = random.choice(&calls) {
            self.connection.cancel(*call);
        }
    }

    fn close(&mut self) {
        self.is_closed = true;
        self.connection.close();
    }

    fn offer(&mut self) {
        let taken = self.connection.handle_input(&self.unread);
        self.unread.drain(..taken);
    }

    fn take_events(&mut self, random: &mut fastrand::Rng) {
        for _ in 0..random.usize(..10) {
            let Some(event) = self.connection.poll_event() else {
                break;
            };
            self.check(event);
        }
    }

    fn take_all_events(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            self.check(event);
        }
    }

    fn check(&mut self, event: Event) {
        assert!(!self.is_over, "an event after the end");
        match event {
            Event::Settled { call, outcome } => {
                self.settled += 1;
                let asked = self.calls[&call];
                if let Outcome::Answered(result) = outcome {
                    self.answered += 1;
                    assert_eq!(result.get(), asked.to_string(), "another call's answer");
                }
            }
            Event::Notification(told) => {
                assert_eq!(told.params.unwrap().get(), self.heard.to_string(), "out of order");
                self.heard += 1;
            }
            Event::Request(request) => {
                let asked = request.params.unwrap().get().parse().unwrap();
                self.open_requests.push((request.id, asked));
            }
            Event::Reported(report) => match report.fault {
                Fault::LateAnswer(_) | Fault::TooManyRequests => {}
                Fault::NotUtf8 | Fault::NotJson { .. } | Fault::Batch | Fault::NotAnEnvelope(_) | Fault::TooLong => {
                    self.garbage += 1
                }
                _ => panic!("a fault that nobody made: {report}"),
            },
            Event::Closed { .. } => self.is_over = true,
        }
    }
}

fn number(value: u64) -> Json {
    Json::of(&value).unwrap()
}
