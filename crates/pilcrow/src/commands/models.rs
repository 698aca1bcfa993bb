//! `pilcrow models`: lists providers and models. Sends no model request and shows
//! no key.

use host::models::{Catalogue, Entry, ModelName, Provider};
use host::{Outcome, models, redaction};
use paths::Homes;
use policy::TrustStore;
use serde_json::{Value, json};

use super::wrong_use;
use crate::{cli, open, output};

/// Number of models shown for each of several providers.
const BRIEF: usize = 3;

/// Lists every provider, or one, whether it has a key, and its models.
pub async fn list(only: Option<&str>, target: &cli::CommandTarget) -> anyhow::Result<Outcome> {
    let (mut catalogue, file) = catalogue(&target.project)?;
    if let Some(only) = only {
        if !catalogue.providers.contains_key(only) {
            // The error names the nearest.
            let error = catalogue.parse_name(only, &file).err().map(|error| error.to_string());
            return Ok(wrong_use(
                &error
                    .unwrap_or_else(|| format!("unknown provider `{only}`; `pilcrow models list` shows all")),
            ));
        }
        catalogue.providers.retain(|name, _| name == only);
    }
    if target.json {
        for (name, provider) in &catalogue.providers {
            let models: Vec<&String> = provider.models.keys().collect();
            output::json(&json!({
                "provider": name,
                "label": provider.label,
                "protocol": provider.protocol,
                "base_url": redaction::redact_url(&provider.base_url),
                "key": has_key(provider),
                "default": provider.default,
                "models": models,
                "source": provider.source,
                "as_of": provider.as_of,
            }));
        }
        return Ok(Outcome::Done);
    }
    let local: std::collections::BTreeMap<_, _> =
        models::local_servers(&catalogue).await.into_iter().collect();
    if only.is_none() {
        output::line("planner  built in, needs no key");
    }
    for (name, provider) in &catalogue.providers {
        output::line(&format!(
            "{name}  {}, {}, {}",
            provider.protocol,
            redaction::redact_url(&provider.base_url),
            describe_key(name, provider)
        ));
        match local.get(name) {
            Some(Some(models)) => {
                models.iter().for_each(|id| output::line(&format!("  {name}/{id}  (answers)")))
            }
            Some(None) => output::line("  (no server answers there)"),
            None => {}
        }
        let mut models: Vec<&String> = provider.models.keys().collect();
        models.sort_by_key(|id| provider.default.as_ref() != Some(*id));
        let shown = if only.is_some() { models.len() } else { BRIEF };
        for id in models.iter().take(shown) {
            let default = if provider.default.as_ref() == Some(*id) { "  (default)" } else { "" };
            output::line(&format!("  {name}/{id}{default}"));
        }
        if let Some(more) = models.len().checked_sub(shown).filter(|more| *more > 0) {
            output::line(&format!("  and {more} more: pilcrow models list {name}"));
        }
    }
    Ok(Outcome::Done)
}

/// Shows the properties of a model.
pub fn show(name: &str, target: &cli::CommandTarget) -> anyhow::Result<Outcome> {
    let (catalogue, file) = catalogue(&target.project)?;
    let model = match catalogue.parse_name(name, &file) {
        Ok(model) => model,
        Err(error) => return Ok(wrong_use(&error.to_string())),
    };
    let Some(provider) = catalogue.providers.get(&model.provider) else { return Ok(Outcome::Failed) };
    let known = provider.models.get(&model.model);
    if target.json {
        output::json(&as_value(&model, provider, known));
        return Ok(Outcome::Done);
    }
    output::line(&format!("{}/{}", model.provider, model.model));
    output::line(&format!("  endpoint     {} ({})", address(provider, known), protocol(provider, known)));
    output::line(&format!("  key          {}", describe_key(&model.provider, provider)));
    let Some(entry) = known else {
        output::line("  no other properties are known");
        return Ok(Outcome::Done);
    };
    let number =
        |number: Option<u64>| number.map_or("unknown".to_owned(), |number| format!("{number} tokens"));
    output::line(&format!("  window       {}", number(entry.context_window)));
    output::line(&format!("  output       {}", number(entry.max_output)));
    output::line(&format!("  images       {}", if entry.images { "yes" } else { "no" }));
    let levels: Vec<&str> = entry.thinking.0.keys().map(|level| level.name()).collect();
    let levels = if levels.is_empty() { "no levels".to_owned() } else { levels.join(", ") };
    output::line(&format!("  thinking     {levels}"));
    if let Some(level) = model.level {
        let used = entry.thinking.at(level).map_or("none", |(level, _)| level.name());
        output::line(&format!("               {} requested, {used} used", level.name()));
    }
    output::line(&format!("  cost         {}", cost(entry)));
    if let (Some(source), Some(as_of)) = source(provider, entry) {
        output::line(&format!("  source       {source} ({as_of})"));
    }
    Ok(Outcome::Done)
}

fn as_value(model: &ModelName, provider: &Provider, known: Option<&Entry>) -> Value {
    let nothing = Entry::default();
    let entry = known.unwrap_or(&nothing);
    let level = model.level.and_then(|level| entry.thinking.at(level)).map(|(level, _)| level.name());
    json!({
        "provider": model.provider,
        "model": model.model,
        "known": known.is_some(),
        "protocol": protocol(provider, known),
        "base_url": address(provider, known),
        "key": has_key(provider),
        "context_window": entry.context_window,
        "max_output": entry.max_output,
        "images": entry.images,
        "thinking": entry.thinking,
        "level": level,
        "price": entry.price,
        "source": known.and_then(|entry| source(provider, entry).0),
        "as_of": known.and_then(|entry| source(provider, entry).1),
    })
}

/// Renders the endpoint, without secrets.
fn address(provider: &Provider, known: Option<&Entry>) -> String {
    redaction::redact_url(known.and_then(|entry| entry.base_url.as_ref()).unwrap_or(&provider.base_url))
}

fn protocol<'a>(provider: &'a Provider, known: Option<&'a Entry>) -> &'a str {
    known.and_then(|entry| entry.protocol.as_deref()).unwrap_or(&provider.protocol)
}

/// Renders the price; "unknown" instead of 0.
fn cost(entry: &Entry) -> String {
    let Some(price) = &entry.price else { return "unknown".to_owned() };
    let part = |name: &str, price: Option<f64>| {
        price.map_or(format!("{name} unknown"), |price| format!("{name} ${price}"))
    };
    let parts = [
        part("input", Some(price.input)),
        part("output", Some(price.output)),
        part("cache read", price.cache_read),
        part("cache write", price.cache_write),
    ];
    let above: Vec<String> = price
        .above
        .iter()
        .map(|tier| {
            let rest = [part("input", tier.input), part("output", tier.output)].join(", ");
            format!("; above {} input tokens {rest}", tier.tokens)
        })
        .collect();
    format!("{} per million tokens{}", parts.join(", "), above.concat())
}

/// Returns source and date of a model's figures: its own, else its provider's.
fn source<'a>(provider: &'a Provider, entry: &'a Entry) -> (Option<&'a String>, Option<&'a String>) {
    match &entry.source {
        Some(source) => (Some(source), entry.as_of.as_ref()),
        None => (provider.source.as_ref(), provider.as_of.as_ref()),
    }
}

/// Whether the provider has a key; `None` if it needs none.
fn has_key(provider: &Provider) -> Option<bool> {
    let set = |name: &String| std::env::var(name).is_ok_and(|key| !key.trim().is_empty());
    if provider.has_key_setting {
        return Some(provider.unset.is_none());
    }
    (!provider.api_key_env.is_empty()).then(|| provider.api_key_env.iter().any(set))
}

fn describe_key(name: &str, provider: &Provider) -> String {
    let names = provider.api_key_env.join(" or ");
    match has_key(provider) {
        Some(false) if provider.has_key_setting => format!(
            "no key: the settings need {}, which is not set",
            provider.unset.as_deref().unwrap_or("a variable")
        ),
        Some(false) if matches!(models::keyring::get(name), Ok(Some(_))) => {
            "key found in the keyring".to_owned()
        }
        None => "needs no key".to_owned(),
        Some(true) if provider.has_key_setting => "key from the settings".to_owned(),
        Some(true) => format!("key found in {names}"),
        Some(false) => format!("no key: set {names}"),
    }
}

/// Loads the catalogue with the settings applied, and the path of `config.toml`.
pub fn catalogue(project: &cli::Project) -> anyhow::Result<(Catalogue, String)> {
    let homes = Homes::from_env()?;
    let root = open::canonical_root(project)?;
    let trusted = TrustStore::new(homes.state.clone()).is_trusted(&root);
    let settings = open::settings(&homes, &root, trusted)?;
    let file = homes.config.join("config.toml").to_string();
    Ok((models::catalogue(&settings, &file)?, file))
}
