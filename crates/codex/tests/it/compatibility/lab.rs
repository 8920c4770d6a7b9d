//! A home, a project and a model for one version, and clients of workers that live there.

use std::path::PathBuf;

use ::codex::{Callbacks, Client, Options, StartError, ThreadOptions};
use supervise::{Launch, Owner};
use testkit::codex;
use testkit::model::StandIn;
use testkit::workplace::Workplace;

use crate::examples::Stage;

pub(super) struct Lab {
    pub(super) version: String,
    launch: Launch,
    workplace: Workplace,
    _model: StandIn,
}

impl Lab {
    pub(super) fn new(version: String, binary: PathBuf) -> Self {
        let (workplace, model) = (Workplace::new().unwrap(), StandIn::start().unwrap());
        let start = codex::launch(binary, &workplace, &model).unwrap();
        let launch = Launch {
            program: start.argv[0].clone(),
            args: start.argv[1..].to_vec(),
            cwd: start.cwd,
            env: start.environment,
            owner: Owner::generate(),
        };
        Self { version, launch, workplace, _model: model }
    }

    pub(super) async fn client(&self) -> Result<Client, StartError> {
        self.client_with(Callbacks::new()).await
    }

    pub(super) async fn client_with(&self, callbacks: Callbacks) -> Result<Client, StartError> {
        let options = Options { experimental_api: true, callbacks, ..Options::new("compatibility", "0") };
        Client::start(&self.launch, options).await
    }

    /// The same for examples, which are programs of their own.
    pub(super) fn stage(&self) -> Stage {
        let worker = [&self.launch.program].into_iter().chain(&self.launch.args).cloned().collect();
        Stage { worker, codex_home: self.workplace.codex_home(), directory: self.workplace.project() }
    }

    pub(super) fn thread(&self) -> ThreadOptions {
        ThreadOptions::in_directory(self.workplace.project().to_str().unwrap())
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.workplace.project().join(name)
    }
}
