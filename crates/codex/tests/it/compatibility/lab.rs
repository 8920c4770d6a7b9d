//! A home, a project and a model for one version, and clients of workers that live there.

use std::path::PathBuf;

use ::codex::{Callbacks, Client, Endpoint, Options, StartError, ThreadOptions};
use supervise::{Child, Ladder, Launch, Owner, Rlimits};
use testkit::HANG_TIMEOUT;
use testkit::codex;
use testkit::compatibility::binaries;
use testkit::model::StandIn;
use testkit::workplace::Workplace;

use crate::examples::Stage;

pub(crate) struct Lab {
    pub(crate) version: String,
    launch: Launch,
    workplace: Workplace,
    _model: StandIn,
}

/// A worker that is nobody's child in the eyes of its clients.
pub(crate) struct Listening {
    pub(crate) endpoint: Endpoint,
    child: Child,
}

impl Listening {
    pub(crate) async fn stop(self) {
        self.child.stop(Ladder::default()).await;
    }
}

impl Lab {
    pub(crate) fn new(version: String, binary: PathBuf) -> Self {
        let (workplace, model) = (Workplace::new().unwrap(), StandIn::start().unwrap());
        let start = codex::launch(binary, &workplace, &model).unwrap();
        let launch = Launch {
            program: start.argv[0].clone(),
            args: start.argv[1..].to_vec(),
            cwd: start.cwd,
            env: start.environment,
            owner: Owner::generate(),
            rlimits: Rlimits::default(),
        };
        Self { version, launch, workplace, _model: model }
    }

    /// With the one binary that the tests have.
    pub(crate) fn newest() -> Self {
        let (version, binary) = binaries().pop().unwrap();
        Self::new(version, binary)
    }

    /// A worker that listens on a socket.
    pub(crate) async fn listening(&self) -> Listening {
        let address = format!("unix://{}", self.workplace.project().join("worker.sock").display());
        let mut launch = self.launch.clone();
        launch.args.extend(["--listen".into(), address.clone().into()]);
        let child = launch.spawn(supervise::Limits::default()).unwrap();
        let endpoint = address.parse().unwrap();
        let is_up = async {
            while Client::connect(&endpoint, Options::new("is it up?", "0")).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(HANG_TIMEOUT, is_up).await.unwrap();
        Listening { endpoint, child }
    }

    pub(crate) async fn client(&self) -> Result<Client, StartError> {
        self.client_with(Callbacks::new()).await
    }

    pub(crate) async fn client_with(&self, callbacks: Callbacks) -> Result<Client, StartError> {
        let options = Options { experimental_api: true, callbacks, ..Options::new("compatibility", "0") };
        Client::start(&self.launch, options).await
    }

    /// The same for examples, which are programs of their own.
    pub(crate) fn stage(&self) -> Stage {
        let worker = [&self.launch.program].into_iter().chain(&self.launch.args).cloned().collect();
        Stage { worker, codex_home: self.workplace.codex_home(), directory: self.workplace.project() }
    }

    pub(crate) fn thread(&self) -> ThreadOptions {
        ThreadOptions::in_directory(self.workplace.project().to_str().unwrap())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.workplace.project().join(name)
    }
}
