//! Conversations of the OpenAI API with real binaries of many versions: every check becomes a cell of `docs/compatibility.md`.

mod checks;
mod lab;

use testkit::compatibility::{Cells, cell, examine};

use lab::Lab;

#[test]
fn every_version_chats_as_far_as_it_can() {
    examine(|_, binary| Lab::run(binary, async |lab| cells(lab).await));
}

async fn cells(lab: &Lab) -> Cells {
    vec![
        ("answer", cell(checks::answer(lab)).await),
        ("stream", cell(checks::stream(lab)).await),
        ("usage", cell(checks::usage(lab)).await),
        ("system prompt", cell(checks::system_prompt(lab)).await),
        ("history", cell(checks::history(lab)).await),
        ("going on", cell(checks::going_on(lab)).await),
        ("branches", cell(checks::branches(lab)).await),
        ("tools", cell(checks::tools(lab)).await),
        ("parallel calls", cell(checks::parallel_calls(lab)).await),
        ("late results", cell(checks::late_results(lab)).await),
        ("output schema", cell(checks::output_schema(lab)).await),
        ("image", cell(checks::image(lab)).await),
        ("reasoning", cell(checks::reasoning(lab)).await),
        ("caller gone", cell(checks::caller_gone(lab)).await),
        ("provider errors", cell(checks::provider_errors(lab)).await),
        ("plain model", cell(checks::plain_model(lab)).await),
        ("private files", cell(checks::private_files(lab)).await),
        ("project configuration", cell(checks::project_configuration(lab)).await),
    ]
}
