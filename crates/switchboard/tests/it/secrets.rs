//! No secret and no prompt in what the server logs, prints or answers: canaries are put wherever a secret goes, and
//! everything that comes out is searched for them.

use crate::command::State;
use crate::served::Served;

const KEY: &str = "canary-key-0123456789-0123456789-0123456789";
const TOKEN: &str = "canary-token";
const QUERY: &str = "canary-query";
const PROMPT: &str = "canary-prompt";

#[test]
fn no_secret_and_no_prompt_is_logged_or_answered() {
    let state = State::new();
    let file = format!(
        "[[workers]]\ncommand = \"demo\"\nenv = [\"PROVIDER_TOKEN\"]\n\
         [approvals]\nwebhook = \"http://127.0.0.1:1/?{QUERY}\"\n\
         [tools.web]\nurl = \"http://127.0.0.1:1/mcp?token={QUERY}#{QUERY}\"\nrestart = \"never\"\n"
    );
    state.configure(&file);
    let variables = [
        ("SWITCHBOARD_KEY", KEY),
        ("PROVIDER_TOKEN", TOKEN),
        ("SWITCHBOARD_APPROVALS_WEBHOOK_AUTHORIZATION", "Bearer canary-webhook"),
    ];
    let served = Served::start_with(&state, &[], &variables);
    let mut said = served.command(&["ask", &format!("[[say {PROMPT}]]")]).stderr;
    let asking = state.run_with(&["ask", &format!("[[shellesc echo {PROMPT}]]")], &[]);
    served.wait_until("asked", |served| served.json(&["approvals"])["approvals"][0]["state"] == "pending");
    let id = served.json(&["approvals"])["approvals"][0]["id"].as_str().unwrap().to_owned();
    served.command(&["approvals", "deny", &id, "--reason", PROMPT]);
    asking.end_beside_others();
    said += &served.command(&["ask", &format!("[[crash 3 kill]] {PROMPT}")]).stderr;
    for path in ["/healthz", "/readyz", "/api/workers", "/nothing", "/api/turns/no/events"] {
        said += &served.get(path);
    }
    said += &served.post("/api/turns", r#"{"prompt":1}"#);
    // What a denied thread is to be told next is shown to whoever may see the thread; secrets are shown to nobody.
    let threads = served.get("/api/threads");
    assert!(threads.starts_with("HTTP/1.1 200"), "{threads}");
    served.wait_until("given up", |served| served.json(&["tools", "list", "web"])["state"] == "failed");
    said += &served.get("/api/tools");
    for arguments in [
        &["workers", "--json"][..],
        &["workers"],
        &["threads"],
        &["doctor"],
        &["doctor", "--json"],
        &["tools"],
        &["tools", "list", "web"],
        &["tools", "--json"],
        &["tools", "call", "web__x"],
        &["tools", "check", "web"],
        &["tools", "check", "web", "--json"],
        &["tools", "check", "--url", &format!("http://127.0.0.1:1/mcp?token={QUERY}")],
        &["serve", "--print-config"],
    ] {
        let ended = state.run_with(arguments, &variables).end_beside_others();
        said += &(ended.stdout + &ended.stderr);
    }
    let made = served.json(&["keys", "add", "canary"])["secret"].as_str().unwrap().to_owned();
    for arguments in [&["keys"][..], &["keys", "--json"], &["usage"]] {
        said += &served.command(arguments).stdout;
    }
    said += &served.welcome.to_string();
    let logged = served.stop().stderr;
    for secret in [KEY, TOKEN, "canary-webhook", QUERY, PROMPT, &made] {
        assert!(!said.contains(secret), "{secret} was answered: {said}");
        assert!(!logged.contains(secret), "{secret} was logged: {logged}");
    }
    for secret in [KEY, TOKEN, "canary-webhook", QUERY, &made] {
        assert!(!threads.contains(secret), "{secret} was answered: {threads}");
    }
    for (field, count) in [("\"thread\":", 3), ("\"turn\":", 3), ("\"caller\":\"local\"", 3), ("\"approval\":", 2)] {
        assert!(logged.matches(field).count() >= count, "{field} is missing: {logged}");
    }
}
