//! The commands of an operator: what they ask of a running server, and how its answers are printed.

#[cfg(test)]
pub(crate) mod adversary;
pub(crate) mod approvals;
pub(crate) mod config;
pub(crate) mod keys;
pub(crate) mod threads;
pub(crate) mod usage;
pub(crate) mod workers;

use std::env;
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use supervise::escaped;

use crate::config::{Secret, load};
use crate::print::{Form, escaped_json, print};
use crate::server::{Server, ServerError};

/// The exit code of a command that finds no server.
const NO_SERVER: u8 = 3;

/// What the help of each of these commands ends with.
pub(crate) const EXIT_CODES: &str = "\
The server is reached by the control socket in its state directory; --server names another one, with its key in SWITCHBOARD_KEY.

Exit codes: 0 done; 1 refused or failed; 3 no server runs here.";

/// Which server to ask, and how to print its answers.
#[derive(Args)]
pub(crate) struct ServerFlags {
    /// The server, such as `https://gateway.example.com` (`http://` to this machine alone); its key is SWITCHBOARD_KEY, and
    /// SSL_CERT_FILE names an authority of your own
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,
    /// The configuration file, if not the usual one
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl ServerFlags {
    /// The server to ask. One that is named with its key needs no configuration, which may be broken just then.
    fn find(&self) -> Result<Result<Server, ServerError>> {
        if let (Some(address), Some(key)) = (&self.server, env::var("SWITCHBOARD_KEY").ok()) {
            return Ok(Server::at(address, Secret::new(key)));
        }
        let config = load(self.config.as_deref(), Vec::new())?.config;
        Ok(Server::find(self.server.as_deref(), &config))
    }

    /// Asks the server and prints what it says.
    pub(crate) async fn ask<F, E>(
        &self,
        ask: impl FnOnce(Server) -> F,
        to_text: impl FnOnce(&Value) -> String,
    ) -> Result<ExitCode>
    where
        F: Future<Output = Result<Value, E>>,
        E: Into<anyhow::Error>,
    {
        let server = match self.find()? {
            Err(error @ ServerError::NotRunning(_)) => {
                crate::print::complain(&error);
                return Ok(ExitCode::from(NO_SERVER));
            }
            found => found?,
        };
        let answer = ask(server).await.map_err(Into::into)?;
        print(&match Form::of(self.json) {
            Form::Json => escaped_json(&answer) + "\n",
            Form::Text => to_text(&answer),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A field of an answer as it stands in a table: escaped, on one line.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        Value::String(text) => escaped(text),
        other => escaped(&other.to_string()),
    }
}

/// The rows of a list in an answer.
pub(crate) fn rows<const COLUMNS: usize>(
    answer: &Value,
    list: &str,
    fields: [&str; COLUMNS],
) -> Vec<[String; COLUMNS]> {
    let items = answer[list].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| fields.map(|field| cell(&item[field]))).collect()
}

/// An id as one segment of a path.
pub(crate) fn segment(id: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    id.bytes().map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::segment;

    #[test]
    fn an_id_cannot_leave_its_segment() {
        assert_eq!(segment("main-0"), "main-0");
        assert_eq!(segment("../é?"), "..%2F%C3%A9%3F");
    }
}
