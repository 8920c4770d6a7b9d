//! What a person begins to write is completed by the server whose prompt or resource it is for.

use crate::meetings::{each_pair, sent};

#[tokio::test(flavor = "multi_thread")]
async fn the_argument_of_a_prompt_or_of_a_template_is_completed_by_its_server() {
    each_pair(async |house, _, caller| {
        let names = caller.client.complete_prompt_simple("g__greet", "name", "a").await.unwrap();
        assert_eq!(names, ["ada", "alan"]);
        let numbers = caller.client.complete_resource_simple("gallery://number/{n}", "n", "1").await.unwrap();
        assert_eq!(numbers, ["1", "10"]);
        let asked = sent(house, "completion/complete");
        assert_eq!(asked[0]["params"]["ref"]["name"], "greet", "by the name that the server has for it");
        let unknown = caller.client.complete_prompt_simple("g__nothing", "name", "a").await.unwrap_err();
        assert!(unknown.to_string().contains("g__nothing"), "{unknown}");
        assert_eq!(sent(house, "completion/complete").len(), 2);
    })
    .await;
}
