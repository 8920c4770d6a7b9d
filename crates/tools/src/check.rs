//! Runs one tool server through its whole life, handshake, lists and stop, and tells every fault that it shows. Where an
//! ordinary start would give up, this goes on asking, so that one run finds everything.

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use supervise::{Ladder, Owner, Rung};

use crate::connection::{Broken, Driver, Telling, Told};
use crate::evidence::{Ended, Evidence, Phase, Silence, Stop};
use crate::far::{End, Far};
use crate::frame::{Frame, Ring, RingLimits};
use crate::handshake::{Era, Failure, Handshake, Opening};
use crate::limits::Limits;
use crate::listing;
use crate::post::{listed, lock};
use crate::report::Report;
use crate::settings::{Dialect, Reach, Server};
use crate::strays;

/// How long a server may speak before it is asked anything.
const LISTEN_FIRST: Duration = Duration::from_millis(200);
/// How long it may take to answer what it is asked in spite of a failed handshake.
const ANYWAY_TIMEOUT: Duration = Duration::from_secs(3);
/// A check keeps everything: it is short, and its frames are quoted.
const EVERYTHING: RingLimits = RingLimits { opening_max: 512, latest_bytes_max: 4 << 20, frame_bytes_max: 4 << 20 };

/// Checks a server and says what is wrong with it.
pub async fn check(server: &Server, owner: Owner, limits: &Limits) -> Report {
    let mut evidence = Evidence { dialect: server.dialect, ..Evidence::default() };
    let opening = match server.dialect {
        Dialect::Mcp => Opening::Discover,
        Dialect::LocalCowork => Opening::Initialize,
    };
    let life = Life { server, owner, limits };
    let next = life.examine(opening, &mut evidence).await;
    if let Some(next) = next {
        // It ended when it was asked something new to it; an ordinary start would begin otherwise the second time.
        evidence = Evidence { dialect: server.dialect, ..Evidence::default() };
        life.examine(next, &mut evidence).await;
    }
    Report::of(&server.name, &evidence)
}

struct Life<'a> {
    server: &'a Server,
    owner: Owner,
    limits: &'a Limits,
}

impl Life<'_> {
    /// One life, whose evidence is gathered. How the next one is to begin, if this one ended by its beginning.
    async fn examine(&self, opening: Opening, evidence: &mut Evidence) -> Option<Opening> {
        let far = match Far::open(self.server, self.owner, self.limits) {
            Ok(far) => far,
            Err(error) => {
                evidence.ended = Some(Ended { how: format!("could not be started: {error}"), after: Duration::ZERO });
                return None;
            }
        };
        let started = Instant::now();
        let (mut driver, half) = Driver::new(far, self.server.dialect, EVERYTHING);
        let ring = Arc::clone(half.ring());
        driver.listen(LISTEN_FIRST).await;
        let handshake = Handshake::new(opening, self.server.timeouts, Instant::now());
        let (tools, next) = match driver.shake_hands(handshake).await {
            Ok(agreement) => {
                let is_legacy = agreement.era == Era::Legacy;
                let (connection, mut telling) = half.joined(agreement);
                evidence.phase = Phase::List;
                let read = tokio::select! {
                    read = listing::read_all(&connection, self.server.timeouts.list, self.limits) => Some(read),
                    () = driver.run() => None,
                    never = answer_all(&mut telling) => match never {},
                };
                match read {
                    Some(read) => {
                        evidence.phase = Phase::Ready;
                        // What answers a notification does so a little later.
                        driver.listen(LISTEN_FIRST).await;
                        if is_legacy {
                            self.ask_unshaken(evidence).await;
                        }
                        (read.lists.tools, None)
                    }
                    None => {
                        evidence.ended = Some(ended(&mut driver, started).await);
                        (Vec::new(), None)
                    }
                }
            }
            Err(Broken::Ended(phase)) => {
                evidence.phase = phase;
                evidence.ended = Some(ended(&mut driver, started).await);
                (Vec::new(), (opening == Opening::Discover && phase == Phase::Discover).then_some(Opening::Initialize))
            }
            Err(Broken::Handshake(failure)) => {
                evidence.phase = Phase::Initialize;
                if let Failure::Unreachable(why) = &failure {
                    evidence.ended =
                        Some(Ended { how: format!("could not be reached: {why}"), after: started.elapsed() });
                    (Vec::new(), None)
                } else if let Failure::Silent { phase, .. } = &failure {
                    let processor = driver.processor_time();
                    evidence.silent = Some(Silence { phase: *phase, lasted: started.elapsed(), processor });
                    (Vec::new(), None)
                } else {
                    // Whether it answers notifications shows only if it is sent one.
                    driver.tell_initialized();
                    let answer = driver.ask_anyway("tools/list", ANYWAY_TIMEOUT).await;
                    let tools = answer.and_then(|answer| answer["tools"].as_array().cloned());
                    (tools.unwrap_or_default(), None)
                }
            }
        };
        evidence.first_byte_at = driver.first_byte_at();
        evidence.stderr = driver.stderr();
        self.stop(driver, evidence).await;
        evidence.frames = frames(&ring);
        let tools = if tools.is_empty() { inline_tools(&evidence.frames) } else { tools };
        evidence.tools = listed(&evidence.frames, &tools);
        next
    }

    /// Starts it once more, and asks for its tools without a handshake: a legacy server should not answer that.
    async fn ask_unshaken(&self, evidence: &mut Evidence) {
        let Reach::Process { .. } = self.server.reach else { return };
        let Ok(far) = Far::open(self.server, self.owner, self.limits) else { return };
        let (mut driver, half) = Driver::new(far, self.server.dialect, EVERYTHING);
        let patience = evidence.first_byte_at.unwrap_or_default() * 2 + ANYWAY_TIMEOUT;
        driver.ask_anyway("tools/list", patience).await;
        driver.stop(Ladder::default()).await;
        evidence.unshaken = frames(half.ring());
    }

    async fn stop(&self, driver: Driver, evidence: &mut Evidence) {
        let begun = Instant::now();
        let End::Process(exit) = driver.stop(Ladder::default()).await else { return };
        if evidence.ended.is_some() {
            return;
        }
        let left = (exit.left_behind > 0).then(|| match exit.left_behind {
            1 => "1 process".to_owned(),
            count => format!("{count} processes"),
        });
        let forced_by = exit.rung.filter(|rung| *rung != Rung::CloseStdin).map(|rung| rung.to_string());
        evidence.stop = Some(Stop { took: begun.elapsed(), forced_by, left: left.into_iter().collect() });
        evidence.stderr.clone_from(&exit.stderr.text);
    }
}

/// Answers what the server asks before it answers us, as far as that needs nobody.
async fn answer_all(telling: &mut Telling) -> Infallible {
    while let Some(told) = telling.told.recv().await {
        if let Told::Asked(question) = told {
            let outcome = strays::answer_of_nobody(&question.method);
            question.answer(outcome).await;
        }
    }
    pending().await
}

async fn ended(driver: &mut Driver, started: Instant) -> Ended {
    let after = started.elapsed();
    let how = driver.exit().await.map_or_else(|| "closed the connection".into(), |exit| exit.ending.to_string());
    Ended { how, after }
}

fn frames(ring: &Mutex<Ring>) -> Vec<Frame> {
    lock(ring).frames().cloned().collect()
}

/// The tools that came with the handshake, or with anything that was never asked for.
fn inline_tools(frames: &[Frame]) -> Vec<Value> {
    let message = |frame: &Frame| serde_json::from_str::<Value>(&frame.text).unwrap_or_else(|_| json!({}));
    let mut tools = frames.iter().map(message).filter_map(|message| message["result"]["tools"].as_array().cloned());
    tools.next().unwrap_or_default()
}
