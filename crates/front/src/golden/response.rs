//! A view of a response: its status, the headers that are ours, and its body as it came. How a worker's text is cut into
//! pieces and how several choices mix depend on time, so a stream is shown choice by choice, and neighbouring pieces of text as one.

use super::names::Names;

/// Headers that say nothing about us.
const PASSED_OVER: [&str; 5] = ["date", "content-length", "connection", "transfer-encoding", "vary"];

/// A response as it came.
pub(super) struct Response<'a> {
    pub(super) status: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    pub(super) body: &'a str,
}

impl<'a> Response<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split_once(' ')).expect("a status line").1;
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self { status, headers: headers.collect(), body }
    }

    pub(super) fn is_stream(&self) -> bool {
        self.headers.iter().any(|(name, value)| *name == "content-type" && value.starts_with("text/event-stream"))
    }

    pub(super) fn view(&self, names: &mut Names) -> String {
        let mut view = format!("{}\n", self.status);
        for (name, value) in self.headers.iter().filter(|(name, _)| !PASSED_OVER.contains(name)) {
            let value = if is_of_the_moment(name, value) { "<time>" } else { value };
            view += &names.written(&format!("{name}: {value}\n"));
        }
        let body = if self.is_stream() { gathered(self.body) } else { self.body.to_owned() };
        view += "\n";
        view += &names.written(&body);
        view.trim_end().into()
    }
}

/// Whether another run would say something else: a long wait is one until midnight.
fn is_of_the_moment(name: &str, value: &str) -> bool {
    const WAIT_SECONDS_MAX: u64 = 30;
    let is_longer = |unit: u64| value.parse::<u64>().is_ok_and(|wait| wait / unit > WAIT_SECONDS_MAX);
    match name {
        "openai-processing-ms" | "x-ratelimit-reset-requests" | "x-ratelimit-reset-tokens" => true,
        "retry-after" => is_longer(1),
        "retry-after-ms" => is_longer(1000),
        _ => false,
    }
}

/// The events of a stream, the choices one after the other, and pieces of text put together.
fn gathered(body: &str) -> String {
    if body.starts_with("event: ") {
        return gathered_response(body);
    }
    let mut events: Vec<&str> = body.split_inclusive("\n\n").collect();
    if events.iter().any(|event| choice_of(event) > Some(0)) {
        events.sort_by_key(|event| choice_of(event).unwrap_or(usize::MAX));
    }
    let mut shown: Vec<String> = Vec::new();
    for event in events {
        match shown.last().and_then(|last| joined(last, event)) {
            Some(joined) => *shown.last_mut().expect("there is a last one") = joined,
            None => shown.push(event.into()),
        }
    }
    shown.concat()
}

/// The events of a response, without their numbers, and pieces of the same part put together.
fn gathered_response(body: &str) -> String {
    const NUMBER: &str = ",\"sequence_number\":";
    const DELTA: &str = "\"delta\":\"";
    let mut shown: Vec<String> = Vec::new();
    for event in body.split_inclusive("\n\n") {
        let event = event.rsplit_once(NUMBER).map_or_else(|| event.to_owned(), |(event, _)| format!("{event}}}\n\n"));
        let joined = shown.last().and_then(|last| {
            let (head, text) = event.split_once(DELTA)?;
            let (last_head, last_text) = last.split_once(DELTA)?;
            let last_text = last_text.strip_suffix("\"}\n\n")?;
            (head == last_head).then(|| format!("{head}{DELTA}{last_text}{text}"))
        });
        match joined {
            Some(joined) => *shown.last_mut().expect("there is a last one") = joined,
            None => shown.push(event),
        }
    }
    shown.concat()
}

fn choice_of(event: &str) -> Option<usize> {
    let (_, rest) = event.split_once(r#""choices":[{"index":"#)?;
    rest.split(',').next()?.parse().ok()
}

/// Two chunks that differ in nothing but their text, as one.
fn joined(one: &str, other: &str) -> Option<String> {
    [r#""content":""#, r#""reasoning_content":""#].into_iter().find_map(|field| {
        let (one, other) = (Piece::of(one, field)?, Piece::of(other, field)?);
        let is_same = one.before == other.before && one.after == other.after;
        let text = [one.text, other.text].concat();
        is_same.then(|| {
            if one.is_told_twice {
                format!(r#"{}{text}","reasoning":"{text}{}"#, one.before, one.after)
            } else {
                format!("{}{text}{}", one.before, one.after)
            }
        })
    })
}

/// A chunk that holds text and nothing else.
struct Piece<'a> {
    before: &'a str,
    text: &'a str,
    after: &'a str,
    is_told_twice: bool,
}

impl<'a> Piece<'a> {
    fn of(event: &'a str, field: &str) -> Option<Self> {
        // No quote inside a text is bare.
        let at = event.find(&format!(r#""delta":{{{field}"#))? + r#""delta":{"#.len() + field.len();
        let end = event[at..].find(r#""},"logprobs""#)? + at;
        let (before, whole, after) = (&event[..at], &event[at..end], &event[end..]);
        match whole.split_once(r#"","reasoning":""#) {
            Some((text, again)) if text == again => Some(Self { before, text, after, is_told_twice: true }),
            Some(_) => None,
            None => Some(Self { before, text: whole, after, is_told_twice: false }),
        }
    }
}
