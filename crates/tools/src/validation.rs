//! How arguments are held against a schema: compiled with patterns that take linear time, and judged on a thread where that
//! holds nobody up, unless they are so few that it is a matter of microseconds. A judgement cannot be interrupted, so that each server has only a few at once and a call waits for its own
//! only so long; one that is given up keeps its place until it ends by itself.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::limits::Limits;
use crate::unfolding::Extent;

/// How many wrong arguments are named.
const ERRORS_MAX: usize = 8;
/// Up to so many possible errors, all are looked for.
const LISTED_ERRORS_COST_MAX: u64 = 200_000;
/// Parts of a schema times bytes of arguments that are judged at once: some milliseconds at worst, mostly microseconds.
const QUICK_COST_MAX: u64 = 200_000;

/// Why a schema has no validator.
#[derive(Debug)]
pub(crate) enum Uncompiled {
    /// It unfolds without bounds, as far as can be said.
    Unbounded,
    /// It refers to what is not in it; nothing is fetched.
    Unresolved { error: Box<ValidationError<'static>> },
    /// One of its patterns has look-around or back-references: a string can keep those busy for hours.
    Backtracks { pattern: String },
    /// It is no JSON Schema.
    Invalid { error: Box<ValidationError<'static>> },
}

/// Judges arguments by a schema.
#[derive(Debug)]
pub(crate) struct Judge {
    validator: Validator,
    extent: Extent,
    required: Vec<String>,
}

impl Judge {
    pub(crate) fn of(schema: &Value) -> Result<Self, Uncompiled> {
        let extent = Extent::of(schema).ok_or(Uncompiled::Unbounded)?;
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Ok(Self {
            validator: compile_without_backtracking(schema)?,
            extent,
            required: required.map(str::to_owned).collect(),
        })
    }

    /// Whether so many bytes of arguments are judged so soon that a thread would only delay it.
    pub(crate) fn is_quick(&self, arguments_bytes: usize) -> bool {
        let Extent { parts, self_references, has_patterns } = self.extent;
        self_references == 0 && !has_patterns && parts.saturating_mul(arguments_bytes as u64) <= QUICK_COST_MAX
    }

    /// What is wrong with the arguments, with the path of each. Models like to write `null` for what may be left out: it counts
    /// as left out, and is passed on.
    pub(crate) fn wrong_arguments(&self, arguments: &Value) -> Option<String> {
        let mut said = arguments.clone();
        if let Some(fields) = said.as_object_mut() {
            fields.retain(|name, value| !value.is_null() || self.required.contains(name));
        }
        if self.validator.is_valid(arguments) || self.validator.is_valid(&said) {
            return None;
        }
        let named = self.named_errors(arguments);
        let why = if named.is_empty() { "it refers to itself, and they nest too deeply to say where" } else { &named };
        Some(format!("its arguments do not fit its schema: {why}"))
    }

    /// The validator knows whether arguments are valid without looking at anything twice, but names errors only by looking at
    /// everything as often as the schema leads there, and keeps all of them.
    fn named_errors(&self, arguments: &Value) -> String {
        let path = |error: &ValidationError<'_>| format!("`${}`", error.instance_path().as_str().replace('/', "."));
        let named = |error: ValidationError<'_>| format!("{}: {error}", path(&error));
        if self.errors_bound(arguments) <= LISTED_ERRORS_COST_MAX {
            let mut errors = self.validator.iter_errors(arguments);
            let first: Vec<String> = errors.by_ref().take(ERRORS_MAX).map(named).collect();
            let more = if errors.next().is_some() { "; and more" } else { "" };
            return first.join("; ") + more;
        }
        if self.extent.self_references > 0 {
            return String::new();
        }
        self.validator.validate(arguments).err().map_or_else(String::new, named)
    }

    /// More errors than there can be.
    fn errors_bound(&self, arguments: &Value) -> u64 {
        let Extent { parts, self_references, .. } = self.extent;
        let (nodes, depth) = size(arguments);
        let repeats = self_references.max(1).saturating_pow(depth);
        parts.saturating_mul(nodes).saturating_mul(repeats)
    }
}

/// How many values there are, and how deep they nest.
fn size(value: &Value) -> (u64, u32) {
    let inner = |sizes: &mut dyn Iterator<Item = (u64, u32)>| {
        sizes.fold((1, 1), |(nodes, depth), (inner, deepest)| (nodes + inner, depth.max(deepest + 1)))
    };
    match value {
        Value::Array(values) => inner(&mut values.iter().map(size)),
        Value::Object(fields) => inner(&mut fields.values().map(size)),
        _ => (1, 1),
    }
}

/// The validator of a schema, whatever it unfolds to.
pub(crate) fn compile(schema: &Value) -> Result<Validator, Uncompiled> {
    let options = jsonschema::options().offline().with_pattern_options(PatternOptions::regex());
    options.build(schema).map_err(|error| match backtracking_pattern(&error) {
        Some(pattern) => Uncompiled::Backtracks { pattern },
        None if matches!(error.kind(), ValidationErrorKind::Referencing(_)) => {
            Uncompiled::Unresolved { error: Box::new(error) }
        }
        None => Uncompiled::Invalid { error: Box::new(error) },
    })
}

/// How many different patterns of one schema are tried on their own.
const PATTERNS_MAX: usize = 256;

/// Compiles a schema without the patterns of strings that need backtracking: what they demand is not checked, everything
/// else is. Patterns that select properties by name stay, and fail the schema: without them `additionalProperties` would
/// mean something else. So do those in a place where a looser schema would refuse more arguments.
fn compile_without_backtracking(schema: &Value) -> Result<Validator, Uncompiled> {
    let compiled = compile(schema);
    if !matches!(compiled, Err(Uncompiled::Backtracks { .. })) {
        return compiled;
    }
    let mut checked = schema.clone();
    let mut patterns = BTreeMap::new();
    for_each_schema(&mut checked, &mut |fields| {
        if let Some(Value::String(pattern)) = fields.get("pattern") {
            patterns.insert(pattern.clone(), false);
        }
    });
    if patterns.len() > PATTERNS_MAX {
        return compiled;
    }
    for (pattern, backtracks) in &mut patterns {
        *backtracks = matches!(compile(&json!({ "pattern": pattern })), Err(Uncompiled::Backtracks { .. }));
    }
    let backtracks = |pattern: &Value| pattern.as_str().and_then(|text| patterns.get(text)) == Some(&true);
    let mut tightens = false;
    for_each_schema(&mut checked, &mut |fields| {
        tightens |=
            TIGHTENING_KEYWORDS.iter().any(|keyword| fields.get(*keyword).is_some_and(|of| refers(of, &backtracks)));
        if fields.get("pattern").is_some_and(backtracks) {
            fields.remove("pattern");
        }
    });
    if tightens { compiled } else { compile(&checked) }
}

/// Keywords whose values are not schemas: a `pattern` in there is a value like any other.
const VALUE_KEYWORDS: [&str; 4] = ["const", "enum", "default", "examples"];

/// Keywords whose fields are schemas by name; a name may be that of a keyword.
const SCHEMA_MAP_KEYWORDS: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Keywords that may refuse more arguments if a schema in them accepts more.
const TIGHTENING_KEYWORDS: [&str; 4] = ["not", "oneOf", "if", "contains"];

/// Visits this schema and every schema in it, the outer ones first.
fn for_each_schema(schema: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Object(fields) => {
            visit(fields);
            for (keyword, value) in fields {
                match value {
                    Value::Object(schemas) if SCHEMA_MAP_KEYWORDS.contains(&keyword.as_str()) => {
                        schemas.values_mut().for_each(|schema| for_each_schema(schema, visit));
                    }
                    _ if VALUE_KEYWORDS.contains(&keyword.as_str()) => {}
                    _ => for_each_schema(value, visit),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| for_each_schema(value, visit)),
        _ => {}
    }
}

/// Whether something in there has a pattern that backtracks, or may lead to one elsewhere.
fn refers(value: &Value, backtracks: &impl Fn(&Value) -> bool) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            matches!(name.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef")
                || (name == "pattern" && backtracks(value))
                || refers(value, backtracks)
        }),
        Value::Array(values) => values.iter().any(|value| refers(value, backtracks)),
        _ => false,
    }
}

/// The pattern that was refused and that an engine which backtracks takes.
fn backtracking_pattern(error: &ValidationError<'_>) -> Option<String> {
    if !matches!(error.kind(), ValidationErrorKind::Format { format } if *format == "regex") {
        return None;
    }
    let instance = error.instance();
    let pattern = instance.as_str().or_else(|| instance.get("pattern")?.as_str())?;
    jsonschema::options().build(&json!({ "pattern": pattern })).is_ok().then(|| pattern.to_owned())
}

/// The judgements of one server's arguments.
#[derive(Debug)]
pub(crate) struct Judgements {
    places: Arc<Semaphore>,
    /// How long one waits for its place: as long as a call may take.
    place_timeout: Duration,
    timeout: Duration,
}

/// Why there is no judgement.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unjudged {
    #[error("the arguments of other calls of its server are still being checked: try again")]
    Busy,
    #[error("checking its arguments against its schema took longer than {0:?}: send less, or ask for a simpler schema")]
    TooSlow(Duration),
}

impl Judgements {
    pub(crate) fn new(limits: &Limits, call_timeout: Duration) -> Self {
        let place_timeout = call_timeout.max(limits.validation_timeout);
        let places = Arc::new(Semaphore::new(limits.validations_max));
        Self { places, place_timeout, timeout: limits.validation_timeout }
    }

    /// What `judge` says, which runs on a thread of its own.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        judge: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unjudged> {
        let place = timeout(self.place_timeout, Arc::clone(&self.places).acquire_owned()).await;
        let Ok(Ok(place)) = place else { return Err(Unjudged::Busy) };
        let mut judging = spawn_blocking(move || {
            let judged = judge();
            drop(place);
            judged
        });
        match timeout(self.timeout, &mut judging).await {
            Ok(Ok(judged)) => Ok(judged),
            Ok(Err(error)) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime ends, and everything with it.
                Err(_) => Err(Unjudged::Busy),
            },
            Err(_) => {
                // If no thread has taken it yet, none will.
                judging.abort();
                Err(Unjudged::TooSlow(self.timeout))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_pattern_that_backtracks_is_refused_and_one_that_is_none_is_invalid() {
        let with =
            |pattern: &str| json!({ "type": "object", "properties": { "a": { "items": { "pattern": pattern } } } });
        for pattern in [r"^(?:(?:(a|a)*\1b)|(?:a*))$", "^(?!x)", "(?<=a)b"] {
            let refused = compile(&with(pattern));
            assert!(
                matches!(&refused, Err(Uncompiled::Backtracks { pattern: named }) if named == pattern),
                "{pattern}: {refused:?}"
            );
        }
        let schema = json!({ "type": "object", "patternProperties": { "^(?!x)": { "type": "string" } } });
        assert!(matches!(Judge::of(&schema), Err(Uncompiled::Backtracks { .. })));
        assert!(matches!(Judge::of(&with("(")), Err(Uncompiled::Invalid { .. })));
        for pattern in [r"^\d{4}-\d{2}$", r"^\/a\/[^\s]+$", r"^(a|a)*$", r"^[\w.-]+@[\w-]+\.\p{L}+$"] {
            assert!(Judge::of(&with(pattern)).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn errors_of_a_schema_that_leads_to_the_same_value_again_and_again_are_not_all_looked_for() {
        let twice = json!([{ "properties": { "a": { "$ref": "#" } } }, { "properties": { "a": { "$ref": "#" } } }]);
        let judge = Judge::of(&json!({ "type": "object", "allOf": twice })).unwrap();
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({ "a": inner }));
        let wrong = judge.wrong_arguments(&nested(2)).unwrap();
        assert!(wrong.contains("`$.a.a`: 1 is not of type \"object\""), "{wrong}");
        // To look for all of them would take longer than the universe has lasted.
        let wrong = judge.wrong_arguments(&nested(100)).unwrap();
        assert!(wrong.contains("refers to itself"), "{wrong}");
        let many =
            Judge::of(&json!({ "type": "object", "properties": { "a": { "items": { "type": "string" } } } })).unwrap();
        let wrong = many.wrong_arguments(&json!({ "a": vec![1; 100_000] })).unwrap();
        assert_eq!(wrong, "its arguments do not fit its schema: `$.a.0`: 1 is not of type \"string\"");
    }

    #[test]
    fn only_small_arguments_of_plain_schemas_are_judged_at_once() {
        let plain = Judge::of(&json!({ "type": "object", "properties": { "a": { "type": "string" } } })).unwrap();
        assert!(plain.is_quick(1_000) && !plain.is_quick(1_000_000));
        for schema in [json!({ "pattern": "^a" }), json!({ "properties": { "a": { "$ref": "#" } } })] {
            assert!(!Judge::of(&schema).unwrap().is_quick(10), "{schema}");
        }
    }

    #[test]
    fn everything_but_a_pattern_that_backtracks_is_checked() {
        let schema = json!({ "type": "object", "required": ["mail"], "properties": {
            "mail": { "type": "string", "pattern": "^(?!\\.)[a-z@.]+$" },
            "other": { "type": "string", "pattern": "^(?=a)" },
            "year": { "type": "string", "pattern": r"^\d{4}$" },
        } });
        let validator = compile_without_backtracking(&schema).unwrap();
        assert!(validator.is_valid(&json!({ "mail": ".not@looked.at", "other": "b", "year": "2026" })));
        for wrong in [json!({}), json!({ "mail": 1 }), json!({ "mail": "a", "year": "26" })] {
            assert!(!validator.is_valid(&wrong), "{wrong}");
        }
        let with_value = json!({ "properties": {
            "a": { "const": { "pattern": "^(?=a)" } }, "b": { "pattern": "^(?=b)" },
        } });
        let validator = compile_without_backtracking(&with_value).unwrap();
        assert!(validator.is_valid(&json!({ "a": { "pattern": "^(?=a)" }, "b": "x" })));
        assert!(!validator.is_valid(&json!({ "a": {} })), "a value is no schema");
        let named_like_keywords = json!({ "properties": {
            "default": { "pattern": "^(?=a)", "type": "string" }, "pattern": { "type": "string" },
        } });
        let validator = compile_without_backtracking(&named_like_keywords).unwrap();
        assert!(validator.is_valid(&json!({ "default": "b", "pattern": "c" })));
        assert!(!validator.is_valid(&json!({ "default": 1 })), "the rest is checked");
        let same_twice = json!({ "items": schema, "allOf": [schema] });
        assert!(compile_without_backtracking(&same_twice).is_ok());
        let many: Vec<Value> =
            (0..=PATTERNS_MAX).map(|number| json!({ "pattern": format!("^(?=a{number})") })).collect();
        assert!(compile_without_backtracking(&json!({ "allOf": many[1..] })).is_ok());
        let too_many = compile_without_backtracking(&json!({ "allOf": many }));
        assert!(matches!(too_many, Err(Uncompiled::Backtracks { .. })));
        let by_name = json!({ "type": "object", "patternProperties": { "^(?!x)": {} }, "additionalProperties": false });
        assert!(matches!(compile_without_backtracking(&by_name), Err(Uncompiled::Backtracks { .. })));
    }

    #[test]
    fn pattern_is_kept_where_its_removal_would_refuse_more() {
        let backtracking = json!({ "pattern": "^(?=a)" });
        let referring = json!({ "$ref": "#/$defs/a" });
        for schema in [
            json!({ "not": backtracking }),
            json!({ "properties": { "b": { "not": { "anyOf": [referring] } } } }),
            json!({ "oneOf": [{ "type": "integer" }, backtracking] }),
            json!({ "if": backtracking, "then": { "type": "integer" } }),
            json!({ "if": referring, "then": { "type": "integer" } }),
            json!({ "contains": backtracking, "maxContains": 1 }),
        ] {
            let schema = json!({ "$defs": { "a": backtracking }, "properties": { "a": schema } });
            let compiled = compile_without_backtracking(&schema);
            assert!(matches!(compiled, Err(Uncompiled::Backtracks { .. })), "{schema}: {compiled:?}");
        }
        let apart = json!({ "properties": {
            "a": backtracking,
            "b": { "oneOf": [{ "type": "integer" }, { "type": "string" }], "not": { "type": "null" } },
        } });
        assert!(compile_without_backtracking(&apart).is_ok());
        let named = json!({ "dependencies": { "default": { "properties": { "a": backtracking } } } });
        assert!(compile_without_backtracking(&named).is_ok());
    }

    #[tokio::test]
    async fn a_judgement_that_never_ends_delays_no_call_for_longer_than_the_timeout() {
        let soon = Duration::from_millis(20);
        let limits = Limits { validations_max: 2, validation_timeout: soon, ..Limits::default() };
        let judgements = Judgements::new(&limits, soon);
        let mut hanging = Vec::new();
        for _ in 0..2 {
            let (release, released) = mpsc::sync_channel::<()>(1);
            let judged = judgements.run(move || released.recv().is_ok()).await;
            assert_eq!(judged, Err(Unjudged::TooSlow(soon)));
            hanging.push(release);
        }
        // Those two still run: a third would be one thread more.
        assert_eq!(judgements.run(|| true).await, Err(Unjudged::Busy));
        drop(hanging);
        while judgements.places.available_permits() < 2 {
            tokio::task::yield_now().await;
        }
        let judgements = Judgements { timeout: Duration::from_secs(180), ..judgements };
        assert_eq!(judgements.run(|| true).await, Ok(true));
    }
}
