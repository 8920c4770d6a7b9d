//! Every broken server of the gallery is found out, in one run, and a good one has nothing to be found.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::Value;
use supervise::Owner;
use tools::{Code, Dialect, Limits, Reach, Report, Server, Timeouts, check};

use crate::house::{PATIENCE, server};

/// What is found, for each server of the gallery; those behind the bar are found too, since one fault brings another.
const FOUND: &[(&str, &[Code], &[Code])] = &[
    ("legacy", &[], &[]),
    ("modern", &[], &[]),
    ("dual", &[], &[]),
    ("deaf-to-discover", &[], &[]),
    ("d1", &[Code::D1], &[]),
    ("d2", &[Code::D2], &[]),
    ("d3", &[Code::D3], &[]),
    ("d4", &[Code::D4], &[]),
    ("d5", &[Code::D5], &[]),
    ("d6", &[Code::D6], &[]),
    ("d7", &[Code::D7], &[]),
    ("d8", &[Code::D8], &[]),
    ("d9", &[Code::D9], &[]),
    ("d10", &[Code::D10], &[]),
    ("d11", &[Code::D11], &[]),
    ("d12", &[Code::D12], &[Code::D20]),
    ("d13", &[Code::D13], &[]),
    ("d14", &[Code::D14], &[]),
    ("d15", &[Code::D15], &[]),
    ("d16", &[Code::D16], &[]),
    ("d17", &[Code::D17], &[]),
    ("d18", &[Code::D18], &[]),
    ("d19", &[Code::D19], &[]),
    ("d20", &[Code::D20], &[Code::D1]),
    ("adr", &[Code::D1, Code::D3, Code::D8], &[Code::D4, Code::D14, Code::D16]),
    ("localcowork-python", &[Code::D4, Code::D5, Code::D6, Code::D7], &[Code::D13, Code::D14, Code::D16]),
    ("localcowork-typescript", &[Code::D4, Code::D5, Code::D6], &[Code::D13, Code::D14, Code::D16]),
    ("import-error", &[Code::D10], &[]),
    ("silent", &[Code::D11], &[]),
    ("noisy", &[Code::D9], &[]),
    ("orphan", &[Code::D18], &[]),
    ("stubborn", &[Code::D17], &[]),
    ("crash-loop", &[Code::D10], &[]),
];

/// As patient as it must be to know silence from slowness.
const IMPATIENT: Timeouts = Timeouts {
    spawn: Duration::from_secs(5),
    first_byte: Duration::from_secs(8),
    discover: Duration::from_secs(2),
    initialize: Duration::from_secs(6),
    list: Duration::from_secs(5),
    call: Duration::from_secs(5),
};

async fn checked(server: &Server) -> Report {
    check(server, Owner::generate(), &Limits::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_server_of_the_gallery_shows_its_fault_and_a_good_one_shows_none() {
    let mut wrong = Vec::new();
    let each = FOUND.iter().map(async |(name, main, besides)| {
        let server = Server { timeouts: IMPATIENT, ..server(name, name) };
        (name, main, besides, checked(&server).await)
    });
    let mut each = futures_util::stream::iter(each).buffered(4);
    while let Some((name, main, besides, report)) = each.next().await {
        let codes: Vec<Code> = report.findings.iter().map(|finding| finding.code).collect();
        let has_all = main.iter().all(|code| codes.contains(code));
        let has_no_other = codes.iter().all(|code| main.contains(code) || besides.contains(code));
        if !has_all || !has_no_other {
            wrong.push(format!("{name}: expected {main:?}, found:\n{report}"));
        }
        for finding in &report.findings {
            assert!(!finding.what.is_empty() && !finding.fix.is_empty(), "{name}: {finding:?}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[tokio::test]
async fn the_three_faults_of_the_server_before_its_fix_are_named_at_once() {
    let begun = std::time::Instant::now();
    let report = checked(&server("filesystem", "adr")).await;
    println!("the three faults were named after {:?}", begun.elapsed());
    let text = report.to_string();
    assert_eq!(report.exit_code(), 2, "{text}");
    let json: Value = serde_json::to_value(&report).unwrap();
    let frame = |code: &str| {
        let findings = json["findings"].as_array().unwrap();
        let finding = findings.iter().find(|finding| finding["code"] == code).unwrap();
        finding["frame"].as_str().unwrap_or_default().to_owned()
    };
    assert!(frame("D1").contains("\"init\""), "{text}");
    assert!(frame("D3").contains("initialize"), "{text}");
    assert!(frame("D8").contains("\"type\":\"object\""), "{text}");
}

#[tokio::test]
async fn nothing_is_found_in_the_template() {
    let mut template = server("template", "x");
    if let tools::Reach::Process { command, .. } = &mut template.reach {
        *command = vec![crate::house::gallery().with_file_name("template").into()];
    }
    let report = checked(&template).await;
    assert_eq!((report.exit_code(), report.findings.len(), report.tools), (0, 0, 2), "{report}");
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_told_with_the_reason() {
    let mut missing = server("gone", "x");
    if let tools::Reach::Process { command, .. } = &mut missing.reach {
        *command = vec!["no-such-program-anywhere".into()];
    }
    let report = checked(&missing).await;
    assert_eq!(report.exit_code(), 2);
    assert!(report.to_string().contains("no-such-program-anywhere"), "{report}");
}

#[tokio::test]
async fn what_a_dialect_does_is_no_fault_where_the_configuration_says_so() {
    for name in ["localcowork-python", "localcowork-typescript"] {
        let server = Server { dialect: Dialect::LocalCowork, ..server(name, name) };
        let report = checked(&server).await;
        let codes: Vec<Code> = report.findings.iter().map(|finding| finding.code).collect();
        assert!(report.exit_code() < 2, "{report}");
        assert!(!codes.contains(&Code::D5) && !codes.contains(&Code::D7), "{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_never_stops_talking_is_found_out_too() {
    let command = vec!["yes".into()];
    let reach = Reach::Process { command, env: Vec::new(), cwd: ".".into(), rlimits: supervise::Rlimits::default() };
    let second = Duration::from_secs(1);
    let timeouts = Timeouts { first_byte: second, discover: second, initialize: second, ..IMPATIENT };
    let server = Server { timeouts, ..Server::new("yes", reach) };
    let report = tokio::time::timeout(PATIENCE, checked(&server)).await.expect("it has an end");
    assert!(report.findings.iter().any(|finding| finding.code == Code::D9), "{report:?}");
}
