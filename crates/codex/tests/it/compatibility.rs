//! The client against real binaries of many versions: every check becomes a cell of `docs/compatibility.md`.

mod checks;
pub(crate) mod lab;

use testkit::compatibility::{binaries, examine};

use lab::Lab;

#[test]
fn every_version_passes_what_it_can() {
    examine(|version, binary| checks::cells(&Lab::new(version.into(), binary.into())));
}

#[test]
fn the_examples_run_with_the_newest() {
    let (version, binary) = binaries().pop().unwrap();
    let lab = Lab::new(version, binary);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stage = lab.stage();
        stage.one_turn_streams().await;
        stage.approvals_are_typed_by_a_person().await;
        stage.a_tool_is_called().await;
        stage.a_thread_goes_on_and_is_listed().await;
    });
}
