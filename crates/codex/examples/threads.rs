//! The threads that a worker keeps, page by page: `cargo run -p codex --example threads -- [worker command …]`.
//!
//! The same call with the protocol's own types is below it.
#![expect(clippy::print_stdout, reason = "an example shows what it gets")]

use codex::abilities::Dialect;
use codex::protocol::ThreadListParams;
use codex::protocol::calls::ThreadList;
use codex::{Client, Options};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut command: Vec<String> = std::env::args().skip(1).collect();
    if command.is_empty() {
        command = vec!["codex".into(), "app-server".into()];
    }

    let client = Client::spawn(command, Options::new("threads", "1.0")).await?;
    let mut cursor = None;
    loop {
        let page = client.list_threads(cursor.as_deref()).await?;
        for thread in page.threads {
            println!("{}  {}", thread.id, thread.preview.lines().next().unwrap_or_default());
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }

    if client.abilities().dialect == Dialect::V2 {
        let newest = ThreadListParams { limit: Some(1), ..ThreadListParams::default() };
        let answer = client.call::<ThreadList>(newest).await?;
        println!("[the newest was made by codex {:?}]", answer.data.first().map(|thread| &thread.cli_version));
    }
    client.stop().await;
    Ok(())
}
