//! `pilcrow models`: providers and models, and how one would be asked. Nothing is asked, and no key is shown.

use serde_json::{Value, json};
use workspace::{AbsPath, Homes, TrustStore};

use super::{Exit, wrong_use};
use crate::models::{Asked, Catalogue, Entry, Provider};
use crate::{cli, models, output, project};

/// Every provider, whether its key is there, and its models.
pub fn list(project: &cli::Project, as_json: bool) -> anyhow::Result<Exit> {
    let (catalogue, _) = catalogue(project)?;
    if as_json {
        for (name, provider) in &catalogue.providers {
            let models: Vec<&String> = provider.models.keys().collect();
            output::json(&json!({
                "provider": name,
                "label": provider.label,
                "protocol": provider.protocol,
                "base_url": provider.base_url,
                "key": has_key(provider),
                "default": provider.default,
                "models": models,
                "source": provider.source,
                "as_of": provider.as_of,
            }));
        }
        return Ok(Exit::Done);
    }
    output::line("planner  built in, needs no key");
    for (name, provider) in &catalogue.providers {
        output::line(&format!(
            "{name}  {}, {}, {}",
            provider.protocol,
            provider.base_url,
            key_words(provider)
        ));
        for id in provider.models.keys() {
            let default = if provider.default.as_ref() == Some(id) { "  (default)" } else { "" };
            output::line(&format!("  {name}/{id}{default}"));
        }
    }
    Ok(Exit::Done)
}

/// What is known of one model.
pub fn show(name: &str, project: &cli::Project, as_json: bool) -> anyhow::Result<Exit> {
    let (catalogue, file) = catalogue(project)?;
    let asked = match catalogue.asked(name, &file) {
        Ok(asked) => asked,
        Err(error) => return Ok(wrong_use(&error.to_string())),
    };
    let Some(provider) = catalogue.providers.get(&asked.provider) else { return Ok(Exit::Failed) };
    let known = provider.models.get(&asked.model);
    if as_json {
        output::json(&as_value(&asked, provider, known));
        return Ok(Exit::Done);
    }
    output::line(&format!("{}/{}", asked.provider, asked.model));
    output::line(&format!("  asked at     {} by {}", provider.base_url, protocol(provider, known)));
    output::line(&format!("  key          {}", key_words(provider)));
    let Some(entry) = known else {
        output::line("  nothing else is known of it");
        return Ok(Exit::Done);
    };
    let number = |number: Option<u64>| number.map_or("unknown".to_owned(), |it| format!("{it} tokens"));
    output::line(&format!("  window       {}", number(entry.context_window)));
    output::line(&format!("  output       {}", number(entry.max_output)));
    output::line(&format!("  images       {}", if entry.images { "yes" } else { "no" }));
    let levels: Vec<&str> = entry.thinking.0.keys().map(|level| level.name()).collect();
    let levels = if levels.is_empty() { "no levels".to_owned() } else { levels.join(", ") };
    output::line(&format!("  thinking     {levels}"));
    if let Some(level) = asked.level {
        let had = entry.thinking.at(level).map_or("none", |(level, _)| level.name());
        output::line(&format!("               {} is asked for, {had} is had", level.name()));
    }
    output::line(&format!("  cost         {}", cost(entry)));
    if let (Some(source), Some(as_of)) = (&entry.source, &entry.as_of) {
        output::line(&format!("  source       {source} ({as_of})"));
    }
    Ok(Exit::Done)
}

fn as_value(asked: &Asked, provider: &Provider, known: Option<&Entry>) -> Value {
    let nothing = Entry::default();
    let entry = known.unwrap_or(&nothing);
    let had = asked.level.and_then(|level| entry.thinking.at(level)).map(|(level, _)| level.name());
    json!({
        "provider": asked.provider,
        "model": asked.model,
        "known": known.is_some(),
        "protocol": protocol(provider, known),
        "base_url": provider.base_url,
        "key": has_key(provider),
        "context_window": entry.context_window,
        "max_output": entry.max_output,
        "images": entry.images,
        "thinking": entry.thinking,
        "level": had,
        "price": entry.price.map(|it| json!({
            "input": it.input, "output": it.output, "cache_read": it.cache_read, "cache_write": it.cache_write,
        })),
        "source": entry.source,
        "as_of": entry.as_of,
    })
}

fn protocol<'a>(provider: &'a Provider, known: Option<&'a Entry>) -> &'a str {
    known.and_then(|entry| entry.protocol.as_deref()).unwrap_or(&provider.protocol)
}

/// Never 0 for what is not known.
fn cost(entry: &Entry) -> String {
    let Some(price) = entry.price else { return "unknown".to_owned() };
    let part = |name: &str, price: Option<f64>| {
        price.map_or(format!("{name} unknown"), |it| format!("{name} ${it}"))
    };
    let parts = [
        part("input", Some(price.input)),
        part("output", Some(price.output)),
        part("cache read", price.cache_read),
        part("cache write", price.cache_write),
    ];
    format!("{} a million tokens", parts.join(", "))
}

/// Whether a key is there; `None` for a provider that needs none.
fn has_key(provider: &Provider) -> Option<bool> {
    let set = |name: &String| std::env::var(name).is_ok_and(|key| !key.trim().is_empty());
    (!provider.api_key_env.is_empty()).then(|| provider.api_key_env.iter().any(set))
}

fn key_words(provider: &Provider) -> String {
    let names = provider.api_key_env.join(" or ");
    match has_key(provider) {
        None => "needs no key".to_owned(),
        Some(true) => format!("key found in {names}"),
        Some(false) => format!("no key: set {names}"),
    }
}

fn catalogue(project: &cli::Project) -> anyhow::Result<(Catalogue, String)> {
    let homes = Homes::from_env()?;
    let root = project::root(project.dir.as_deref())?;
    let root = AbsPath::new(root.canonicalize()?)
        .ok_or_else(|| anyhow::anyhow!("the project has no absolute path"))?;
    let trusted = TrustStore::new(homes.state.clone()).is_trusted(&root);
    let settings = project::settings(&homes, &root, trusted)?;
    let file = homes.config.join("config.toml").to_string();
    Ok((models::catalogue(&settings, &file)?, file))
}
