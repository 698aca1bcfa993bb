//! Finds servers on this machine that speak OpenAI's protocol.
//!
//! It asks only loopback addresses, without a proxy and without a key.

use std::time::Duration;

use serde_json::Value;

use crate::http::is_loopback;

/// Maximum size of an answer.
const LIMIT: usize = 1024 * 1024;

/// The models of the server at this base URL, in its order.
///
/// `None` if it does not answer within the deadline, the answer is not a list of models, or the address is
/// not a loopback address. Cancel-safe.
pub async fn local_models(base_url: &str, deadline: Duration) -> Option<Vec<String>> {
    if !is_loopback(base_url) {
        return None;
    }
    tokio::time::timeout(deadline, ask(base_url)).await.ok()?
}

async fn ask(base_url: &str) -> Option<Vec<String>> {
    // `Err` means that another part of the process has installed a provider, which is equivalent.
    rustls::crypto::ring::default_provider().install_default().ok();
    let client =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().ok()?;
    let url = format!("{}/models", base_url.trim_end_matches('/'));
    let mut response = client.get(url).send().await.ok().filter(|it| it.status().is_success())?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > LIMIT {
            return None;
        }
    }
    models(&serde_json::from_slice(&body).ok()?)
}

fn models(answer: &Value) -> Option<Vec<String>> {
    let data = answer["data"].as_array()?;
    Some(data.iter().filter_map(|model| model["id"].as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn only_loopback_addresses_are_asked() {
        for url in
            ["http://192.168.1.5:11434/v1", "https://api.example.com/v1", "http://localhost.example.com/v1"]
        {
            // A request would exceed a deadline of zero.
            assert_eq!(local_models(url, Duration::ZERO).await, None, "{url}");
        }
    }

    #[test]
    fn a_list_of_models_is_parsed() {
        let answer = json!({"object": "list", "data": [{"id": "qwen3:8b", "object": "model"}, {"id": 1}]});
        assert_eq!(models(&answer), Some(vec!["qwen3:8b".to_owned()]));
        assert_eq!(models(&json!({"models": []})), None);
    }
}
