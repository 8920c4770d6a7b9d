//! A tool server in Rust: two tools, with schemas of their arguments and results made from the types.
//! Nothing but the protocol may stand on stdout; whatever else there is to say goes to stderr.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{Json, ServerHandler, ServiceExt as _, tool, tool_handler, tool_router, transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, Serialize, JsonSchema)]
enum Unit {
    Celsius,
    Fahrenheit,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Temperature {
    /// How many degrees
    degrees: f64,
    /// The unit that they are in
    unit: Unit,
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    /// Words with spaces between them
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Word {
    word: String,
}

struct Template;

#[tool_router]
impl Template {
    #[tool(description = "Converts a temperature to the other unit", annotations(read_only_hint = true))]
    fn convert_temperature(&self, Parameters(given): Parameters<Temperature>) -> Json<Temperature> {
        Json(match given.unit {
            Unit::Celsius => Temperature { degrees: given.degrees * 1.8 + 32.0, unit: Unit::Fahrenheit },
            Unit::Fahrenheit => Temperature { degrees: (given.degrees - 32.0) / 1.8, unit: Unit::Celsius },
        })
    }

    #[tool(description = "Finds the longest word of a text", annotations(read_only_hint = true))]
    fn longest_word(&self, Parameters(given): Parameters<Text>) -> Result<Json<Word>, String> {
        let longest = given.text.split_whitespace().max_by_key(|word| word.len());
        Ok(Json(Word { word: longest.ok_or("the text has no word")?.into() }))
    }
}

#[tool_handler(name = "template-rust", version = "1.0.0")]
impl ServerHandler for Template {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Template.serve(transport::stdio()).await?.waiting().await?;
    Ok(())
}
