//! Small schemas in, Rust out.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::write::Writer;
use super::{boxes, methods, read};
use crate::schema::history::{History, Kind};
use crate::schema::{Method, MethodTable};

fn text_of(definitions: &Value) -> anyhow::Result<String> {
    let mut definitions = read::definitions(&json!({ "definitions": definitions }))?;
    boxes::put(&mut definitions);
    let sent = definitions.keys().map(String::as_str).filter(|name| name.ends_with("Params")).collect();
    let writer = Writer {
        definitions: &definitions,
        purposes: BTreeMap::from([("GoParams", "The parameters of `go`.".to_owned())]),
        experimental: BTreeSet::from([("GoParams", "far")]),
        sent,
    };
    let texts: anyhow::Result<Vec<String>> = definitions.values().map(|each| writer.definition(each)).collect();
    Ok(texts?.join("\n"))
}

fn check(definitions: &Value, expected: &Expect) {
    expected.assert_eq(&text_of(definitions).unwrap());
}

fn refused(definitions: &Value, expected: &Expect) {
    expected.assert_eq(&format!("{:#}", text_of(definitions).unwrap_err()));
}

#[test]
fn a_record_says_of_each_field_whether_it_may_be_missing() {
    check(
        &json!({ "GoParams": {
            "type": "object",
            "required": ["threadId", "type", "until"],
            "properties": {
                "_meta": true,
                "count": { "type": "integer", "format": "uint32", "minimum": 0.0, "default": 0 },
                "far": { "type": ["boolean", "null"] },
                "names": { "type": "object", "additionalProperties": { "type": "array", "items": { "type": "string" } } },
                "on": { "type": "boolean", "default": true },
                "threadId": { "type": "string" },
                "type": { "$ref": "#/definitions/v2/Kind" },
                "until": { "anyOf": [{ "$ref": "#/definitions/v2/Kind" }, { "type": "null" }] },
            },
        }, "v2": { "Kind": { "type": "string" } } }),
        &expect![[r#"
            record! {
                /// The parameters of `go`.
                pub struct GoParams {
                    /// `_meta`: optional.
                    meta: Option<Json> = "_meta" or none,
                    /// `count`: optional.
                    count: u32 = "count" or default,
                    /// `far`: optional, experimental.
                    far: Option<bool> = "far" or none,
                    /// `names`: optional.
                    names: BTreeMap<String, Vec<String>> = "names" or default,
                    /// `on`: optional, `true` if missing.
                    on: Option<bool> = "on" or none,
                    /// `threadId`.
                    thread_id: String = "threadId",
                    /// `type`.
                    r#type: Kind = "type",
                    /// `until`: may be null.
                    until: Option<Kind> = "until" or null,
                }
            }

            impl GoParams {
                /// With what is required, and nothing else.
                pub fn new(thread_id: impl Into<String>, r#type: Kind, until: Option<Kind>) -> Self {
                    Self {
                        meta: None,
                        count: Default::default(),
                        far: None,
                        names: Default::default(),
                        on: None,
                        thread_id: thread_id.into(),
                        r#type,
                        until,
                    }
                }
            }

            /// Upstream's `Kind`.
            pub type Kind = String;
        "#]],
    );
}

#[test]
fn words_tags_and_keys_are_open() {
    check(
        &json!({
            "Word": { "oneOf": [{ "enum": ["on-request", "other"], "type": "string" }, { "enum": ["never"], "type": "string" }] },
            "Item": {
                "type": "object",
                "properties": { "at": { "type": ["integer", "null"], "format": "int64" } },
                "oneOf": [
                    { "type": "object", "required": ["type", "id"], "properties": {
                        "type": { "enum": ["plan"], "type": "string" }, "id": { "type": "string" } } },
                    { "type": "object", "required": ["type", "id"], "anyOf": [
                        { "type": "object", "required": ["url"], "properties": { "url": { "type": "string" } } },
                    ], "properties": { "type": { "enum": ["image"], "type": "string" }, "id": { "type": "string" } } },
                ],
            },
            "Source": { "oneOf": [
                { "enum": ["cli"], "type": "string" },
                { "type": "object", "additionalProperties": false, "required": ["sub"],
                  "properties": { "sub": { "type": "object", "properties": { "depth": { "type": "integer", "format": "int32" } } } } },
            ] },
            "State": { "oneOf": [
                { "type": "object", "required": ["kind"], "properties": { "kind": { "enum": ["idle"], "type": "string" } } },
            ] },
        }),
        &expect![[r#"
            tagged! {
                /// Upstream's `Item`.
                pub enum Item by "type" {
                    Plan(ItemPlan) = "plan",
                    Image(ItemImage) = "image",
                }
            }

            shared! {
                Item {
                    id: str,
                    at: Option<i64>,
                } in [
                    Plan,
                    Image,
                ]
            }

            record! {
                /// Upstream's `ItemImage`.
                pub struct ItemImage {
                    /// `id`.
                    id: String = "id",
                    /// `url`: optional.
                    url: Option<String> = "url" or none,
                    /// `at`: optional.
                    at: Option<i64> = "at" or none,
                }
            }

            record! {
                /// Upstream's `ItemPlan`.
                pub struct ItemPlan {
                    /// `id`.
                    id: String = "id",
                    /// `at`: optional.
                    at: Option<i64> = "at" or none,
                }
            }

            keyed! {
                /// Upstream's `Source`.
                pub enum Source {
                    words {
                        Cli = "cli",
                    }
                    keys {
                        Sub(SourceSub) = "sub",
                    }
                }
            }

            record! {
                /// Upstream's `SourceSub`.
                #[derive(Default)]
                pub struct SourceSub {
                    /// `depth`: optional.
                    depth: i32 = "depth" or default,
                }
            }

            tagged! {
                /// Upstream's `State`.
                pub enum State by "kind" {
                    Idle = "idle",
                }
            }

            words! {
                /// Upstream's `Word`.
                pub enum Word {
                    OnRequest = "on-request",
                    OtherWord = "other",
                    Never = "never",
                }
            }
        "#]],
    );
}

#[test]
fn what_only_its_form_tells_apart_is_a_choice() {
    check(
        &json!({
            "Id": { "anyOf": [{ "type": "string" }, { "type": "integer", "format": "int64" }] },
            "NullableId": { "anyOf": [{ "$ref": "#/definitions/Id" }, { "type": "null" }] },
            "FormSchema": { "anyOf": [{ "$ref": "#/definitions/FormTextSchema" }, { "$ref": "#/definitions/FormPickSchema" }] },
            "FormPickSchema": { "anyOf": [{ "type": "array", "items": { "type": "string" } }] },
            "FormTextSchema": { "type": "object", "required": ["type"], "properties": { "type": { "$ref": "#/definitions/FormTextType" } } },
            "FormTextType": { "enum": ["string"], "type": "string" },
        }),
        &expect![[r#"
            choice! {
                /// Upstream's `FormPickSchema`.
                pub enum FormPickSchema {
                    List(Vec<String>),
                }
            }

            choice! {
                /// Upstream's `FormSchema`.
                pub enum FormSchema {
                    Text(FormTextSchema) if "type" in ["string"],
                    Pick(FormPickSchema) as choice,
                }
            }

            record! {
                /// Upstream's `FormTextSchema`.
                pub struct FormTextSchema {
                    /// `type`.
                    r#type: FormTextType = "type",
                }
            }

            words! {
                /// Upstream's `FormTextType`.
                pub enum FormTextType {
                    String = "string",
                }
            }

            choice! {
                /// Upstream's `Id`.
                pub enum Id {
                    Text(String),
                    Number(i64),
                }
            }

            /// Upstream's `NullableId`.
            pub type NullableId = Option<Id>;
        "#]],
    );
}

#[test]
fn what_contains_itself_is_boxed_and_so_is_a_large_variant() {
    let text = || json!({ "type": "string" });
    let large = json!({ "a": text(), "b": text(), "c": text(), "d": text(), "e": text(), "f": text(), "g": text() });
    let mut large =
        json!({ "type": "object", "required": ["a", "b", "c", "d", "e", "f", "g", "type"], "properties": large });
    large["properties"]["type"] = json!({ "enum": ["large"], "type": "string" });
    check(
        &json!({
            "Node": { "type": "object", "properties": { "next": { "anyOf": [{ "$ref": "#/definitions/Node" }, { "type": "null" }] } } },
            "Size": { "oneOf": [large] },
        }),
        &expect![[r#"
            record! {
                /// Upstream's `Node`.
                #[derive(Default)]
                pub struct Node {
                    /// `next`: optional.
                    next: Option<Box<Node>> = "next" or none,
                }
            }

            tagged! {
                /// Upstream's `Size`.
                pub enum Size by "type" {
                    Large(Box<SizeLarge>) = "large",
                }
            }

            record! {
                /// Upstream's `SizeLarge`.
                pub struct SizeLarge {
                    /// `a`.
                    a: String = "a",
                    /// `b`.
                    b: String = "b",
                    /// `c`.
                    c: String = "c",
                    /// `d`.
                    d: String = "d",
                    /// `e`.
                    e: String = "e",
                    /// `f`.
                    f: String = "f",
                    /// `g`.
                    g: String = "g",
                }
            }
        "#]],
    );
}

#[test]
fn a_form_that_was_never_seen_is_refused_with_its_place() {
    let field = |schema: Value| json!({ "Go": { "type": "object", "properties": { "far": schema } } });
    refused(
        &field(json!({ "type": "string", "pattern": "x" })),
        &expect![[
            r#"cannot read the definition Go: cannot read the field far of Go: the generator does not expect "pattern" here: {"pattern": String("x"), "type": String("string")}"#
        ]],
    );
    refused(
        &field(json!({ "type": "integer", "format": "int7" })),
        &expect![[
            r#"cannot read the definition Go: cannot read the field far of Go: a number of the unknown format "int7""#
        ]],
    );
    refused(
        &field(json!({ "$ref": "#/definitions/Nowhere" })),
        &expect!["cannot read the definition Go: cannot read the field far of Go: Nowhere is not defined"],
    );
    let twice = json!({ "Go": { "type": "string" }, "v2": { "Go": { "type": "object" } } });
    refused(&twice, &expect!["Go is defined twice, differently"]);
}

fn table() -> MethodTable {
    let table = json!({
        "clientRequests": [
            { "method": "thread/start", "params": "v2/StartParams", "experimental": false, "experimentalFields": ["far"] },
            { "method": "memory/reset", "params": null, "experimental": true, "experimentalFields": [] },
        ],
        "clientNotifications": [{ "method": "initialized", "params": null, "experimental": false }],
        "serverNotifications": [{ "method": "turn/started", "params": "v2/TurnStarted", "experimental": false }],
        "serverRequests": [],
    });
    serde_json::from_value(table).unwrap()
}

#[test]
fn methods_become_names_and_values() {
    let table = table();
    let answers = BTreeMap::from([
        ("thread/start", "StartResponse".to_owned()),
        ("memory/reset", "MemoryResetResponse".to_owned()),
    ]);
    let [calls, ours, told, _]: [(Kind, &[Method]); 4] = table.by_kind();
    let definitions = read::definitions(&json!({ "definitions": { "TurnStarted": { "type": "object" } } })).unwrap();
    let told = methods::by_method("Notification", "What a worker tells.", told.1, &definitions).unwrap();
    let ours = methods::client_notifications(ours.1).unwrap();
    expect![[r#"
        calls! {
            "thread/start" => ThreadStart(StartParams) -> StartResponse, stable but ["far"];
            "memory/reset" => MemoryReset(()) -> MemoryResetResponse, experimental;
        }

        by_method! {
            /// What a worker tells.
            pub enum Notification {
                TurnStarted(TurnStarted) = "turn/started",
            }
        }

        /// What we can tell a worker.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ClientNotification {
            /// `initialized`
            Initialized,
        }

        impl ClientNotification {
            /// Its name on the wire.
            #[must_use]
            pub const fn method(self) -> &'static str {
                match self {
                    Self::Initialized => "initialized",
                }
            }
        }
    "#]]
    .assert_eq(&[methods::calls(calls.1, &answers), told, ours].join("\n"));
}

#[test]
fn the_table_has_what_is_and_what_was() {
    let history = r#"{"versions":["0.1.0","0.2.0"],"methods":[
        {"kind":"call","method":"thread/start","since":"0.2.0","until":"0.2.0"},
        {"kind":"call","method":"newThread","since":"0.1.0","until":"0.1.0"}
    ]}"#;
    expect![[r#"
        /// Every method of the schema, in upstream's order, then those that workers list beside it, and then those that
        /// only older versions have.
        pub const METHODS: &[Method] = &[
            Method::new(Kind::Call, "thread/start", Extent::Stable, "0.2.0", Until::Today),
            Method::new(Kind::Call, "memory/reset", Extent::Experimental, NEWEST, Until::Today),
            Method::new(Kind::ClientNotification, "initialized", Extent::Stable, NEWEST, Until::Today),
            Method::new(Kind::Notification, "turn/started", Extent::Stable, NEWEST, Until::Today),
            Method::new(
                Kind::Call,
                "getConversationSummary",
                Extent::Unlisted("kept for v1 clients, left out of the schema; `thread/read` tells more"),
                NEWEST,
                Until::Today,
            ),
            Method::new(
                Kind::Call,
                "gitDiffToRemote",
                Extent::Unlisted("kept for v1 clients, left out of the schema; nothing replaces it"),
                NEWEST,
                Until::Today,
            ),
            Method::new(
                Kind::Call,
                "getAuthStatus",
                Extent::Unlisted("kept for v1 clients, left out of the schema; `account/read` replaces it"),
                NEWEST,
                Until::Today,
            ),
            Method::new(Kind::Call, "newThread", Extent::Stable, "0.1.0", Until::Version("0.1.0")),
        ];
    "#]]
    .assert_eq(&methods::table(&table(), &History::read(history).unwrap()));
}
