//! Faults of the process: it ended (D10), was silent (D11) or slow (D12), would not end (D17), or left others (D18).

use std::time::Duration;

use crate::evidence::{Ended, Phase, Silence};
use crate::finding::{Code, Finding, Severity};

use super::place::{Place, said};
use super::reading::Reading;

/// A first byte that comes later than this is worth a word.
pub(super) const SLOW: Duration = Duration::from_secs(5);

/// How the end of a server begins that was never there.
pub(crate) const NEVER_THERE: &str = "could not be ";

/// Words in the stderr of servers that could not start, and what helps.
const CAUSES: [(&str, &str); 7] = [
    ("ModuleNotFoundError", "install the Python module that is missing, into the environment that it is started with"),
    ("ImportError", "install the right version of the Python module that cannot be imported"),
    ("Cannot find module", "run `npm install` where it is started, or mend the path of the module"),
    ("ERR_MODULE_NOT_FOUND", "run `npm install` where it is started, or mend the path of the module"),
    ("SyntaxError", "start it with the version of its language that it is written for"),
    ("EADDRINUSE", "let it speak over stdio, or stop what else holds its port"),
    ("ermission denied", "give it access to what its stderr names"),
];

pub(super) fn look(reading: &Reading<'_>) -> Vec<Finding> {
    let evidence = reading.evidence;
    let mut findings = Vec::new();
    findings.extend(evidence.ended.as_ref().map(|ended| end(reading, ended)));
    findings
        .extend(evidence.silent.as_ref().filter(|_| evidence.ended.is_none()).map(|silence| silent(reading, silence)));
    if let Some(at) = evidence.first_byte_at.filter(|at| *at > SLOW) {
        let what = format!("its first byte came {} after its start", said(at));
        let fix = "import and connect to things when they are first needed, or raise `first_byte_timeout`";
        findings.push(Place::nowhere().shows(Code::D12, Severity::Note, what, fix));
    }
    let Some(stop) = &evidence.stop else { return findings };
    if let Some(force) = &stop.forced_by {
        let what = format!("it was still there {} after its stdin was closed, until {force}", said(stop.took));
        let fix = "end when reading stdin gives end of file, also while a call is under way";
        findings.push(Place::nowhere().shows(Code::D17, Severity::Warning, what, fix));
    }
    if stop.left_behind > 0 {
        let processes = if stop.left_behind == 1 { "process" } else { "processes" };
        let what = format!("it left {} {processes} behind when it ended", stop.left_behind);
        let fix = "end what it starts before it ends, and start it in its own process group";
        findings.push(Place::nowhere().shows(Code::D18, Severity::Warning, what, fix));
    }
    findings
}

fn end(reading: &Reading<'_>, ended: &Ended) -> Finding {
    let waited = match reading.unanswered() {
        Some(method) => format!("before it answered `{method}`"),
        None if reading.said.iter().any(|said| said.answered().is_some()) => "though nobody asked it to".to_owned(),
        None => "before it said anything".to_owned(),
    };
    let stderr = &reading.evidence.stderr;
    let last = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
    let last = last.map(|line| format!("; its stderr ends with: {line}")).unwrap_or_default();
    if ended.how.starts_with(NEVER_THERE) {
        let fix = "install it or correct `command`, its directory, or the address; `which NAME` says whether a program is found";
        return Place::nowhere().shows(Code::D10, Severity::Error, format!("it {}", ended.how), fix);
    }
    let what = format!("it {} after {}, {waited}{last}", ended.how, said(ended.after));
    let cause = CAUSES.iter().find(|(word, _)| stderr.contains(word)).map(|(_, help)| *help);
    let fix = cause.unwrap_or("run its command by hand, and mend what its stderr says");
    Place::nowhere().shows(Code::D10, Severity::Error, what, fix)
}

fn silent(reading: &Reading<'_>, silence: &Silence) -> Finding {
    let waited = match (reading.unanswered(), silence.phase) {
        (Some(method), _) => format!("to `{method}`"),
        (None, Phase::Spawn) => "at all".to_owned(),
        (None, _) => "to what it was asked".to_owned(),
    };
    let used = silence.processor.map(|used| format!(", and had used {} of processor time", said(used)));
    let what =
        format!("it was alive and gave no answer {waited} for {}{}", said(silence.lasted), used.unwrap_or_default());
    let is_busy = silence.processor.is_some_and(|used| used >= silence.lasted / 2);
    let fix = if is_busy {
        "it is at work: do less before the first answer, or raise the timeout of this phase"
    } else {
        "read stdin line by line without waiting for its end, answer each request, and flush stdout after each line"
    };
    Place::nowhere().shows(Code::D11, Severity::Error, what, fix)
}
