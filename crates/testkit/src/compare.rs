//! Compares what two workers said in the same exchange: the same lines in the same order, with the same keys, types
//! and values, whatever the ids are called.
//!
//! Where two lines race in the real worker, either order of the two is the same; everything else keeps its place. Both
//! sides are brought into the one order that stands for all that are the same, and compared then.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use serde_json::Value;

use crate::ids::{Piece, pieces};
use crate::transcript::{Direction, Entry, Transcript};

/// Everything in which `actual` differs from `expected`, but for the `races`.
pub fn compare(expected: &Transcript, actual: &Transcript, races: &Races<'_>) -> Vec<Mismatch> {
    let (expected, actual) = (lines(expected, races), lines(actual, races));
    let mut comparison = Comparison::default();
    for pair in aligned(&expected, &actual) {
        match pair {
            Pair::Both(expected, actual) => comparison.line(expected, actual),
            Pair::OnlyExpected(line) | Pair::OnlyActual(line) if races.optional.contains(line.name.as_str()) => {}
            Pair::OnlyExpected(line) => {
                comparison.report(&line.name, "", What::Missing, Some(&line.message), None);
            }
            Pair::OnlyActual(line) => {
                comparison.report(&line.name, "", What::Extra, None, Some(&line.message));
            }
        }
    }
    comparison.mismatches
}

/// Lines, by name, that the real worker itself does not always say in one way. A line's name is its method, the kind of
/// its item (`item/completed commandExecution`), and for an answer its kind (`turn/start result`).
#[derive(Debug, Default)]
pub struct Races<'a> {
    /// Pairs of lines of which either may come first, unless both are about one item.
    pub swaps: BTreeSet<(&'a str, &'a str)>,
    /// Lines that may also not come at all.
    pub optional: BTreeSet<&'a str>,
}

impl Races<'_> {
    fn may_swap(&self, one: &Line, other: &Line) -> bool {
        let (here, there) = (one.name.as_str(), other.name.as_str());
        let is_pair = self.swaps.contains(&(here, there)) || self.swaps.contains(&(there, here));
        is_pair && (one.item().is_none() || one.item() != other.item())
    }
}

/// The names of all lines that the worker said.
pub(crate) fn names(transcript: &Transcript) -> Vec<String> {
    let lines = lines(transcript, &Races::default());
    lines.into_iter().map(|line| line.name).collect()
}

/// One difference.
#[derive(Debug, Clone)]
pub struct Mismatch {
    /// The name of the line (see [`Races`]); `exit` where the worker ended.
    pub line: String,
    /// Where in the line, with dots; empty for the whole line.
    pub path: String,
    /// What differs.
    pub what: What,
    expected: Option<Value>,
    actual: Option<Value>,
}

/// What differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A line or key is not there.
    Missing,
    /// A line or key is there that should not be.
    Extra,
    /// The values are of different JSON types.
    Type,
    /// The values are of one type and not the same, or the arrays not of one length.
    Value,
}

const SHOWN_CHARS_MAX: usize = 160;
const SHOWN_BEFORE_CHARS: usize = 60;

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, path, what, expected, actual } = self;
        let shown = |value: &Option<Value>| value.as_ref().map(Value::to_string).unwrap_or_default();
        let (expected, actual) = (shown(expected), shown(actual));
        let from = first_difference(&expected, &actual).saturating_sub(SHOWN_BEFORE_CHARS);
        write!(f, "{line}{}{path}: {what:?}", if path.is_empty() { "" } else { " " })?;
        for (name, text) in [("expected", expected), ("actual", actual)] {
            if !text.is_empty() {
                let mark = if from > 0 { "…" } else { "" };
                let shown: String = text.chars().skip(from).take(SHOWN_CHARS_MAX).collect();
                write!(f, "\n      {name}: {mark}{shown}")?;
            }
        }
        Ok(())
    }
}

/// How many characters two texts have in common at their start; none if one is empty.
fn first_difference(one: &str, other: &str) -> usize {
    if one.is_empty() || other.is_empty() {
        return 0;
    }
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
}

/// A line of a worker.
struct Line {
    name: String,
    message: Value,
}

/// What the worker said, in the order that stands for all that the races make the same.
fn lines(transcript: &Transcript, races: &Races<'_>) -> Vec<Line> {
    let mut calls: HashMap<String, &str> = HashMap::new();
    let mut lines = Vec::new();
    for Entry { direction, message } in &transcript.entries {
        match direction {
            Direction::Sent => {
                let method = message["method"].as_str();
                calls.extend(method.map(|method| (message["id"].to_string(), method)));
            }
            Direction::Received => {
                let line = Line { name: name(message, &calls), message: message.clone() };
                let is_any_of_its_kind = races.swaps.contains(&(line.name.as_str(), line.name.as_str()));
                lines.push(if is_any_of_its_kind { line.without_number() } else { line });
            }
            Direction::Exit => lines.push(Line { name: "exit".to_owned(), message: message.clone() }),
        }
    }
    ordered(lines, races)
}

/// Takes again and again, of the lines that may come next, the first by what it says.
fn ordered(mut lines: Vec<Line>, races: &Races<'_>) -> Vec<Line> {
    let mut ordered = Vec::new();
    while !lines.is_empty() {
        let may_come = |at: &usize| lines[..*at].iter().all(|before| races.may_swap(before, &lines[*at]));
        let next = (0..lines.len()).filter(may_come).min_by_key(|at| lines[*at].what_it_says());
        ordered.push(lines.remove(next.unwrap_or_default()));
    }
    ordered
}

fn name(message: &Value, calls: &HashMap<String, &str>) -> String {
    let answered = || calls.get(&message["id"].to_string()).unwrap_or(&"unknown");
    match (message["method"].as_str(), message["params"]["item"]["type"].as_str()) {
        (Some(method), Some(item)) => format!("{method} {item}"),
        (Some(method), None) => method.to_owned(),
        (None, _) if message["error"].is_null() => format!("{} result", answered()),
        (None, _) => format!("{} error", answered()),
    }
}

impl Line {
    /// The item that the line is about.
    fn item(&self) -> Option<&str> {
        let params = &self.message["params"];
        [&params["item"]["id"], &params["itemId"], &params["callId"]].into_iter().find_map(Value::as_str)
    }

    /// A request that may change places with its like has its number by luck.
    fn without_number(mut self) -> Self {
        if let Some(fields) = self.message.as_object_mut() {
            fields.remove("id");
        }
        self
    }

    /// The name and all that is no id: what decides between lines that may swap.
    fn what_it_says(&self) -> (String, String) {
        let message = self.message.to_string();
        let plain = pieces(&message).into_iter().filter_map(|piece| match piece {
            Piece::Plain(plain) => Some(plain),
            Piece::Id { .. } => None,
        });
        (self.name.clone(), plain.collect())
    }
}

enum Pair<'a> {
    Both(&'a Line, &'a Line),
    OnlyExpected(&'a Line),
    OnlyActual(&'a Line),
}

/// Pairs the lines by the longest common subsequence of their names, so that one missing line is one mismatch.
fn aligned<'a>(expected: &'a [Line], actual: &'a [Line]) -> Vec<Pair<'a>> {
    let mut lengths = vec![vec![0_usize; actual.len() + 1]; expected.len() + 1];
    for (e, expected) in expected.iter().enumerate().rev() {
        for (a, actual) in actual.iter().enumerate().rev() {
            lengths[e][a] = if expected.name == actual.name {
                lengths[e + 1][a + 1] + 1
            } else {
                lengths[e + 1][a].max(lengths[e][a + 1])
            };
        }
    }
    let (mut pairs, mut e, mut a) = (Vec::new(), 0, 0);
    while e < expected.len() || a < actual.len() {
        match (expected.get(e), actual.get(a)) {
            (Some(here), Some(there)) if here.name == there.name => {
                pairs.push(Pair::Both(here, there));
                (e, a) = (e + 1, a + 1);
            }
            (Some(here), there) if there.is_none() || lengths[e + 1][a] >= lengths[e][a + 1] => {
                pairs.push(Pair::OnlyExpected(here));
                e += 1;
            }
            _ => {
                pairs.push(Pair::OnlyActual(&actual[a]));
                a += 1;
            }
        }
    }
    pairs
}

#[derive(Default)]
struct Comparison {
    mismatches: Vec<Mismatch>,
    /// Which id of the one stands for which of the other, both ways.
    counterparts: HashMap<String, String>,
    originals: HashMap<String, String>,
}

impl Comparison {
    fn line(&mut self, expected: &Line, actual: &Line) {
        self.value(&expected.name, "", &expected.message, &actual.message);
    }

    fn value(&mut self, line: &str, path: &str, expected: &Value, actual: &Value) {
        match (expected, actual) {
            (Value::Object(expected), Value::Object(actual)) => {
                let mut unexpected: BTreeSet<&str> = actual.keys().map(String::as_str).collect();
                for (key, expected) in expected {
                    let path = join(path, key);
                    let key = self.counterpart(key);
                    unexpected.remove(key.as_str());
                    match actual.get(&key) {
                        Some(actual) => self.value(line, &path, expected, actual),
                        None => self.report(line, &path, What::Missing, Some(expected), None),
                    }
                }
                for key in unexpected {
                    self.report(line, &join(path, key), What::Extra, None, actual.get(key));
                }
            }
            (Value::Array(expected_items), Value::Array(actual_items)) => {
                for (index, (expected, actual)) in expected_items.iter().zip(actual_items).enumerate() {
                    self.value(line, &join(path, &index.to_string()), expected, actual);
                }
                if expected_items.len() != actual_items.len() {
                    self.report(line, path, What::Value, Some(expected), Some(actual));
                }
            }
            (Value::String(here), Value::String(there)) if self.same_text(here, there) => {}
            (expected, actual) if expected == actual && !expected.is_string() => {}
            (expected, actual) => {
                let same_type = std::mem::discriminant(expected) == std::mem::discriminant(actual);
                let what = if same_type { What::Value } else { What::Type };
                self.report(line, path, what, Some(expected), Some(actual));
            }
        }
    }

    fn same_text(&mut self, expected: &str, actual: &str) -> bool {
        let (expected, actual) = (pieces(expected), pieces(actual));
        expected.len() == actual.len()
            && expected.iter().zip(&actual).all(|pieces| match pieces {
                (Piece::Id { form, id }, Piece::Id { form: other_form, id: other }) => {
                    form == other_form && self.same_id(id, other)
                }
                (expected, actual) => expected == actual,
            })
    }

    /// Two ids are the same if neither has stood for another before.
    fn same_id(&mut self, expected: &str, actual: &str) -> bool {
        let counterpart = self.counterparts.entry(expected.to_owned()).or_insert_with(|| actual.to_owned());
        let original = self.originals.entry(actual.to_owned()).or_insert_with(|| expected.to_owned());
        counterpart == actual && original == expected
    }

    /// A key, which may be an id.
    fn counterpart(&self, key: &str) -> String {
        self.counterparts.get(key).cloned().unwrap_or_else(|| key.to_owned())
    }

    fn report(&mut self, line: &str, path: &str, what: What, expected: Option<&Value>, actual: Option<&Value>) {
        self.mismatches.push(Mismatch {
            line: line.to_owned(),
            path: path.to_owned(),
            what,
            expected: expected.cloned(),
            actual: actual.cloned(),
        });
    }
}

fn join(path: &str, segment: &str) -> String {
    if path.is_empty() { segment.to_owned() } else { format!("{path}.{segment}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    use expect_test::{Expect, expect};

    use super::{Races, compare};
    use crate::transcript::Transcript;

    fn transcript(lines: &[&str]) -> Transcript {
        let text: String = lines.iter().fold(String::new(), |mut text, line| {
            let (dir, message) = line.split_once(' ').unwrap();
            writeln!(text, r#"{{"dir":"{dir}","message":{message}}}"#).unwrap();
            text
        });
        Transcript::parse(&text).unwrap()
    }

    fn check(expected: &[&str], actual: &[&str], mismatches: &Expect) {
        let found = compare(
            &transcript(expected),
            &transcript(actual),
            &Races { swaps: BTreeSet::from([("warning", "turn/completed"), CALLS, STARTS]), ..Races::default() },
        );
        mismatches.assert_eq(&found.iter().map(|mismatch| format!("{mismatch}\n")).collect::<String>());
    }

    const CALLS: (&str, &str) = ("item/tool/call", "item/tool/call");
    const STARTS: (&str, &str) = ("item/started tool", "item/tool/call");

    const STARTED: &str = r#"received {"method":"turn/started","params":{"turnId":"msg_1","status":"inProgress"}}"#;
    const DONE: &str = r#"received {"method":"turn/completed","params":{"turnId":"msg_1"}}"#;
    const WARNING: &str = r#"received {"method":"warning","params":{}}"#;

    #[test]
    fn names_of_ids_do_not_matter_but_their_identity_does() {
        let renamed = r#"received {"method":"turn/started","params":{"turnId":"msg_7","status":"inProgress"}}"#;
        check(&[STARTED], &[renamed], &expect![""]);
        check(
            &[STARTED, DONE],
            &[renamed, DONE],
            &expect![[r#"
                turn/completed params.turnId: Value
                      expected: "msg_1"
                      actual: "msg_1"
            "#]],
        );
    }

    #[test]
    fn racing_lines_may_swap_but_must_come() {
        check(&[STARTED, WARNING, DONE], &[STARTED, DONE, WARNING], &expect![""]);
        check(
            &[STARTED, WARNING, DONE],
            &[STARTED, DONE],
            &expect![[r#"
                warning: Missing
                      expected: {"method":"warning","params":{}}
            "#]],
        );
    }

    #[test]
    fn a_racing_line_keeps_its_place_among_the_others() {
        check(
            &[STARTED, WARNING, DONE],
            &[WARNING, STARTED, DONE],
            &expect![[r#"
            warning: Extra
                  actual: {"method":"warning","params":{}}
            warning: Missing
                  expected: {"method":"warning","params":{}}
        "#]],
        );
    }

    #[test]
    fn lines_about_one_item_do_not_swap() {
        let call = |item: u8| {
            format!(
                r#"received {{"id":{item},"method":"item/tool/call","params":{{"callId":"call_{item}","n":{item}}}}}"#
            )
        };
        let start = r#"received {"method":"item/started","params":{"item":{"id":"call_1","type":"tool"}}}"#;
        let (one, two) = (&*call(1), &*call(2));
        check(&[start, one, two], &[two, start, one], &expect![""]);
        check(
            &[start, one, two],
            &[one, start, two],
            &expect![[r#"
            item/started tool: Missing
                  expected: {"method":"item/started","params":{"item":{"id":"call_1","type":"tool"}}}
            item/started tool: Extra
                  actual: {"method":"item/started","params":{"item":{"id":"call_1","type":"tool"}}}
        "#]],
        );
    }

    #[test]
    fn order_keys_types_and_values_matter() {
        check(
            &[STARTED, DONE],
            &[DONE, STARTED],
            &expect![[r#"
                turn/started: Missing
                      expected: {"method":"turn/started","params":{"status":"inProgress","turnId":"msg_1"}}
                turn/started: Extra
                      actual: {"method":"turn/started","params":{"status":"inProgress","turnId":"msg_1"}}
            "#]],
        );
        check(
            &[r#"sent {"id":1,"method":"thread/read"}"#, r#"received {"id":1,"result":{"a":1,"b":null,"c":[1,2]}}"#],
            &[r#"sent {"id":1,"method":"thread/read"}"#, r#"received {"id":1,"result":{"b":"x","c":[1],"d":true}}"#],
            &expect![[r#"
                thread/read result result.a: Missing
                      expected: 1
                thread/read result result.b: Type
                      expected: null
                      actual: "x"
                thread/read result result.c: Value
                      expected: [1,2]
                      actual: [1]
                thread/read result result.d: Extra
                      actual: true
            "#]],
        );
    }
}
