//! A tool of ours that the agent may call: `cargo run -p codex --example tools -- "which port?" [worker command …]`.
//!
//! Client-side tools are experimental upstream, so the connection asks for that.
#![expect(clippy::print_stdout, reason = "an example shows what it gets")]

use codex::protocol::requests::ItemToolCall;
use codex::{Callbacks, Client, Options, Reply, ThreadOptions, Tool};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let prompt = arguments.next().unwrap_or_else(|| "Which port does the billing service use?".into());
    let mut command: Vec<String> = arguments.collect();
    if command.is_empty() {
        command = vec!["codex".into(), "app-server".into()];
    }

    let callbacks = Callbacks::new().on::<ItemToolCall, _, _>(|call| {
        println!("{} {}", call.tool, call.arguments.get());
        Reply::text("port 8080")
    });
    let options = Options { experimental_api: true, callbacks, ..Options::new("tools", "1.0") };
    let client = Client::spawn(command, options).await?;
    let lookup = Tool {
        namespace: None,
        name: "port_of".into(),
        description: "Tells which port a service uses".into(),
        input_schema: json!({"type": "object", "properties": {"service": {"type": "string"}}}),
    };
    let thread = client.start_thread(ThreadOptions { tools: vec![lookup], ..ThreadOptions::default() }).await?;
    let finished = thread.start_turn(prompt).await?.finish().await;
    println!("{} [{:?}]", finished.text, finished.status);
    client.stop().await;
    Ok(())
}
