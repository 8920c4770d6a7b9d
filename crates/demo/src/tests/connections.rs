//! Several clients, one worker.

use expect_test::expect;
use tempfile::TempDir;

use super::{Theatre, lines_with, part, turn};
use crate::options::Dialect;

const TWO_CLIENTS: &str = r#"
    A connects
    A< {"id":1,"method":"initialize","params":{"clientInfo":{"name":"first","version":"1"}}}
    B connects
    B< {"id":1,"method":"initialize","params":{"clientInfo":{"name":"second","version":"2"},"capabilities":{"optOutNotificationMethods":["account/rateLimits/updated"]}}}
    A< {"id":2,"method":"thread/start","params":{"cwd":"/home/dev","approvalPolicy":"untrusted"}}
"#;

fn theatre(home: &TempDir) -> Theatre {
    let mut theatre = Theatre::new(Dialect::V2, home, "");
    theatre.play(TWO_CLIENTS);
    theatre
}

#[test]
fn worker_takes_the_first_clients_name_and_tells_all_of_new_threads() {
    let home = TempDir::new().unwrap();
    let log = theatre(&home).log;
    expect![[r##"
        A {"id":1,"result":{"codexHome":"$HOME","platformFamily":"unix","platformOs":"linux","userAgent":"first/VERSION (Switchboard demo worker 0.1.0; x86_64) demo (first; 1)"}}
        B {"id":1,"result":{"codexHome":"$HOME","platformFamily":"unix","platformOs":"linux","userAgent":"first/VERSION (Switchboard demo worker 0.1.0; x86_64) demo (second; 2)"}}
        A {"method":"thread/started","params":{"thread":{"canAcceptDirectInput":true,"ephemeral":false,"historyMode":"paginated","id":"#1","model":"demo","modelProvider":"demo","originator":"first","path":"$HOME/sessions/2027/01/15/rollout-2027-01-15T08-00-00-#1.jsonl","preview":"","source":"vscode","status":{"type":"idle"},"turns":[]}}}
        B {"method":"thread/started","params":{"thread":{"canAcceptDirectInput":true,"ephemeral":false,"historyMode":"paginated","id":"#1","model":"demo","modelProvider":"demo","originator":"first","path":"$HOME/sessions/2027/01/15/rollout-2027-01-15T08-00-00-#1.jsonl","preview":"","source":"vscode","status":{"type":"idle"},"turns":[]}}}
    "##]].assert_eq(&lines_with(&log, &["userAgent", "thread/started"]));
}

#[test]
fn who_is_not_subscribed_hears_only_the_status() {
    let home = TempDir::new().unwrap();
    let mut theatre = theatre(&home);
    theatre.log.clear();
    let log = theatre.play(&turn(3, "[[text]]"));
    expect![[r#"
        B {"method":"thread/status/changed","params":{"status":{"activeFlags":[],"type":"active"}}}
        B {"method":"thread/status/changed","params":{"status":{"type":"idle"}}}
    "#]]
    .assert_eq(&lines_with(log, &["B {"]));
}

#[test]
fn parked_request_survives_its_client_and_is_asked_again_under_its_id() {
    let home = TempDir::new().unwrap();
    let mut theatre = theatre(&home);
    theatre.play(&turn(3, "[[shell touch a]]"));
    theatre.log.clear();
    let play = r#"
        A leaves
        B< {"id":2,"method":"thread/resume","params":{"threadId":"$2.thread.id","excludeTurns":true}}
        B< {"id":0,"result":{"decision":"accept"}}"#;
    let log = theatre.play(play);
    expect![[r#"
        B {"method":"thread/goal/cleared","params":{}}
        B {"id":0,"method":"item/commandExecution/requestApproval","params":{"availableDecisions":["accept",{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["touch","a"]}},"cancel"],"command":"/bin/bash -lc 'touch a'","commandActions":[{"command":"touch a","type":"unknown"}],"environmentId":"local","itemId":"call_resp_4","kind":"command","proposedExecpolicyAmendment":["touch","a"]}}
        B {"method":"serverRequest/resolved","params":{"requestId":0}}
        B {"method":"thread/status/changed","params":{"status":{"activeFlags":[],"type":"active"}}}
        B {"method":"item/completed","params":{"item":{"command":"/bin/bash -lc 'touch a'","commandActions":[{"command":"touch a","type":"unknown"}],"exitCode":0,"id":"call_resp_4","processId":"6","source":"unifiedExecStartup","status":"completed","type":"commandExecution"}}}
    "#]].assert_eq(part(log, "thread/goal/cleared", "commandExecution"));
}

#[test]
fn first_answer_counts_and_both_hear_of_it() {
    let home = TempDir::new().unwrap();
    let mut theatre = theatre(&home);
    theatre.play(&turn(3, "[[text]]"));
    theatre.play(r#"B< {"id":2,"method":"thread/resume","params":{"threadId":"$2.thread.id","excludeTurns":true}}"#);
    theatre.log.clear();
    let play = turn(4, "[[shell touch a]]")
        + r#"
        B< {"id":0,"result":{"decision":"decline"}}
        A< {"id":0,"result":{"decision":"accept"}}"#;
    let log = theatre.play(&play);
    expect![[r#"
        A {"id":0,"method":"item/commandExecution/requestApproval","params":{"availableDecisions":["accept",{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["touch","a"]}},"cancel"],"command":"/bin/bash -lc 'touch a'","commandActions":[{"command":"touch a","type":"unknown"}],"environmentId":"local","itemId":"call_resp_8","kind":"command","proposedExecpolicyAmendment":["touch","a"]}}
        B {"id":0,"method":"item/commandExecution/requestApproval","params":{"availableDecisions":["accept",{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["touch","a"]}},"cancel"],"command":"/bin/bash -lc 'touch a'","commandActions":[{"command":"touch a","type":"unknown"}],"environmentId":"local","itemId":"call_resp_8","kind":"command","proposedExecpolicyAmendment":["touch","a"]}}
        A {"method":"serverRequest/resolved","params":{"requestId":0}}
        B {"method":"serverRequest/resolved","params":{"requestId":0}}
        A {"method":"item/completed","params":{"item":{"command":"/bin/bash -lc 'touch a'","commandActions":[{"command":"touch a","type":"unknown"}],"id":"call_resp_8","source":"agent","status":"declined","type":"commandExecution"}}}
        B {"method":"item/completed","params":{"item":{"command":"/bin/bash -lc 'touch a'","commandActions":[{"command":"touch a","type":"unknown"}],"id":"call_resp_8","source":"agent","status":"declined","type":"commandExecution"}}}
    "#]].assert_eq(&lines_with(
        log,
        &["requestApproval", "resolved", "declined"],
    ));
}
