//! The catalogue of providers and models.
//!
//! It is the built-in one, merged with the user's `models.toml`. The module is pure.

use std::cell::RefCell;
use std::collections::BTreeMap;

use llm::{ApiKey, Auth, Compat, Effort, Endpoint, Price, Thinking, ThinkingLevel};
use serde::Deserialize;
use strsim::levenshtein;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::PREFERRED;
use crate::redaction;

/// Maximum length in bytes of values that do not count as secrets.
const MAX_PUBLIC: usize = 5;

const BUILT_IN: &str = include_str!("models.toml");

/// The providers of models, by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Version of the format; only 1 exists.
    #[expect(dead_code, reason = "checked before the file is deserialized")]
    format: Option<u32>,
    #[serde(default)]
    pub providers: BTreeMap<String, Provider>,
}

/// A service with models.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Name for the user.
    pub label: Option<String>,
    #[serde(default = "completions")]
    pub protocol: String,
    /// Base URL; may contain `{name}`s, which `values` replace.
    pub base_url: String,
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Header of the key, if not the protocol's.
    pub auth: Option<Auth>,
    /// Environment variables for the key; the first that is set is used.
    #[serde(default)]
    pub api_key_env: Vec<String>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Explanations of HTTP statuses.
    #[serde(default)]
    pub texts: BTreeMap<String, String>,
    #[serde(default)]
    pub compat: Compat,
    /// Whether it is a server on this machine, queried for its models if none is set.
    #[serde(default)]
    pub local: bool,
    /// Model for the provider's name alone.
    pub default: Option<String>,
    #[serde(default)]
    pub models: BTreeMap<String, Entry>,
    pub source: Option<String>,
    pub as_of: Option<String>,
    /// Whether the settings name the source of its keys.
    #[serde(skip)]
    pub has_key_setting: bool,
    /// Names of the variables that the key setting reads, if none of them is set.
    #[serde(skip)]
    pub unset: Option<String>,
}

/// The properties of a model.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Entry {
    /// Protocol, if not the provider's.
    pub protocol: Option<String>,
    /// Base URL, if not the provider's.
    pub base_url: Option<String>,
    pub context_window: Option<u64>,
    pub max_output: Option<u64>,
    pub images: bool,
    /// Whether tools can be added in the middle of a transcript.
    pub late_tools: bool,
    pub thinking: Thinking,
    pub price: Option<Price>,
    pub source: Option<String>,
    pub as_of: Option<String>,
}

/// An error in the catalogue or a model name.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum CatalogueError {
    #[error("{file} is invalid: {reason}")]
    File { file: String, reason: String },
    #[error(
        "unknown provider or model `{name}`; did you mean one of {known}?\n`pilcrow models list` shows all; \
         to add a provider, write its address into {file}:\n[providers.{provider}]\nbase_url = \"https://HOST/v1\"",
        provider = toml_key(name.split('/').next().unwrap_or_default())
    )]
    NoProvider { name: String, known: String, file: String },
    #[error(
        "unknown thinking level after `{0}:`; use one of {levels}",
        levels = ThinkingLevel::ALL.map(ThinkingLevel::name).join(", ")
    )]
    NoLevel(String),
    #[error("`{0}` has no default model; name one as `{0}/MODEL`")]
    NoDefault(String),
    #[error("the base URL of `{provider}` needs `{{{name}}}`; set it in [providers.{key}.values]", key = toml_key(provider))]
    NoValue { provider: String, name: String },
    #[error("[providers.{key}] needs the variable {variable}; set it", key = toml_key(provider))]
    NoVariable { provider: String, variable: String },
}

/// A key as TOML writes it, in quotes where it needs them.
fn toml_key(key: &str) -> String {
    let is_bare =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    // A JSON string is a TOML string too.
    if is_bare { key.to_owned() } else { serde_json::Value::from(key).to_string() }
}

/// The parts of a model name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    pub provider: String,
    pub model: String,
    pub level: Option<ThinkingLevel>,
}

impl Provider {
    /// A provider with only a base URL, compatible with OpenAI's completions.
    fn compatible(base_url: String) -> Provider {
        Provider {
            label: None,
            protocol: completions(),
            base_url,
            values: BTreeMap::new(),
            auth: None,
            api_key_env: Vec::new(),
            headers: BTreeMap::new(),
            texts: BTreeMap::new(),
            compat: Compat::default(),
            local: false,
            default: None,
            models: BTreeMap::new(),
            source: None,
            as_of: None,
            has_key_setting: false,
            unset: None,
        }
    }
}

fn completions() -> String {
    llm::protocol::openai_completions::API.to_owned()
}

impl Provider {
    /// Lists passwords and keys in its URLs and headers.
    fn secrets(&self) -> impl Iterator<Item = String> {
        let model_urls = self.models.values().filter_map(|entry| entry.base_url.as_ref());
        let urls = std::iter::once(&self.base_url).chain(model_urls);
        // Variables become secrets when they are read.
        let headers =
            self.headers.iter().filter(|(name, value)| holds_secret(name, value) && !value.contains("${"));
        // The secret is the last word, after the name of the scheme.
        let words = headers.filter_map(|(_, value)| value.split_whitespace().next_back().map(str::to_owned));
        urls.flat_map(|url| redaction::secrets_of_url(url)).chain(words)
    }
}

impl Catalogue {
    /// Registers the provider's secrets for redaction.
    pub(crate) fn learn_secrets(&self) {
        self.providers.values().flat_map(Provider::secrets).for_each(|secret| policy::learn_secret(&secret));
    }

    /// Reads the built-in catalogue, merged with the text of the user's `models.toml`.
    ///
    /// `file` names it in errors. Tables merge key by key; other values replace the built-in ones.
    ///
    /// # Errors
    /// When the user's file is not TOML, has an unknown key, or a provider without a base URL.
    pub fn read(user: Option<&str>, file: &str) -> Result<Catalogue, CatalogueError> {
        let invalid = |reason: String| CatalogueError::File { file: file.to_owned(), reason };
        let mut table: Table =
            BUILT_IN.parse().map_err(|error: toml::de::Error| invalid(error.to_string()))?;
        if let Some(user) = user {
            // The description omits the text of the line, which may contain a key.
            let describe = |error: toml::de::Error| {
                let line = error
                    .span()
                    .and_then(|span| user.get(..span.start))
                    .map(|text| text.matches('\n').count() + 1);
                invalid(line.map_or_else(String::new, |line| format!("line {line}: ")) + error.message())
            };
            let overlay: Table = user.parse().map_err(describe)?;
            if let Some(format) = overlay.get("format").filter(|format| format.as_integer() != Some(1)) {
                let format = format.as_integer().map_or("another".to_owned(), |format| format.to_string());
                return Err(invalid(format!("it has format {format}, this Pilcrow supports format 1")));
            }
            unknown_keys(user).map_err(invalid)?;
            merge(&mut table, overlay);
        }
        let providers = table.get("providers").cloned();
        let catalogue = Value::Table(table).try_into::<Catalogue>();
        let catalogue = catalogue.map_err(|error| {
            let detail = providers.as_ref().and_then(Value::as_table).and_then(invalid_provider);
            invalid(detail.unwrap_or_else(|| without_values(error.message())))
        })?;
        for (name, provider) in &catalogue.providers {
            if let Some(status) = provider
                .texts
                .keys()
                .find(|text| !text.parse().is_ok_and(|status| (100..600).contains(&status)))
            {
                return Err(invalid(format!("providers.{name}.texts: {status:?} is not an HTTP status")));
            }
            for (id, entry) in &provider.models {
                let limits = [("max_output", entry.max_output), ("context_window", entry.context_window)];
                if let Some((key, _)) = limits.iter().find(|(_, limit)| *limit == Some(0)) {
                    return Err(invalid(format!(
                        "providers.{name}.models.{id:?}: {key} is 0; omit it if it is unknown"
                    )));
                }
                if entry.price.as_ref().is_some_and(|price| !is_price(price)) {
                    return Err(invalid(format!(
                        "providers.{name}.models.{id:?}.price: a price must not be negative"
                    )));
                }
            }
        }
        Ok(catalogue)
    }

    /// Applies the settings of a provider.
    pub fn set(&mut self, name: &str, base_url: Option<String>, api_key_env: Option<String>) {
        if let Some(base_url) = base_url {
            match self.providers.get_mut(name) {
                Some(provider) => provider.base_url = base_url,
                None => {
                    self.providers.insert(name.to_owned(), Provider::compatible(base_url));
                }
            }
        }
        if let (Some(variable), Some(provider)) = (api_key_env, self.providers.get_mut(name)) {
            provider.api_key_env = vec![variable];
        }
    }

    /// Replaces the thinking budgets of models that use budgets.
    ///
    /// Limits each to the range from the model's lowest to its highest level, which `xhigh` and `max` use by
    /// default.
    pub(crate) fn set_budgets(&mut self, budgets: &BTreeMap<ThinkingLevel, u64>) {
        let models = self.providers.values_mut().flat_map(|provider| provider.models.values_mut());
        for entry in models {
            let thinking = &mut entry.thinking;
            let budget = |effort: Option<&Effort>| match effort {
                Some(Effort::Budget(tokens @ 1..)) => Some(*tokens),
                _ => None,
            };
            let ceiling = budget(thinking.0.values().next_back());
            let minimum = budget(thinking.0.get(&ThinkingLevel::Minimal)).unwrap_or(1);
            let limited = |tokens: u64| Effort::Budget(tokens.max(minimum).min(ceiling.unwrap_or(u64::MAX)));
            for (level, tokens) in budgets {
                if let Some(effort) =
                    thinking.0.get_mut(level).filter(|effort| budget(Some(effort)).is_some())
                {
                    *effort = limited(*tokens);
                }
            }
            let Some(ceiling) = ceiling else { continue };
            for level in [ThinkingLevel::Xhigh, ThinkingLevel::Max] {
                let set = budgets.get(&level).map(|tokens| limited(*tokens));
                let usual = Effort::Budget(ceiling);
                let is_usual = thinking.at(level).is_some_and(|(_, effort)| *effort == usual);
                if !thinking.0.contains_key(&level) && (set.is_some() || !is_usual) {
                    thinking.0.insert(level, set.unwrap_or(usual));
                }
            }
        }
    }

    /// Parses `PROVIDER` or `PROVIDER/MODEL`, optionally with `:LEVEL`.
    ///
    /// A known model whose own name ends in such a word takes precedence.
    ///
    /// # Errors
    /// When the provider is unknown, or has no default and no model is named.
    pub fn parse_name(&self, name: &str, file: &str) -> Result<ModelName, CatalogueError> {
        let (provider, model) = match name.split_once('/') {
            Some((provider, model)) => (provider, Some(model)),
            None => (name, None),
        };
        let split = |text: &str| {
            let (rest, level) = text.rsplit_once(':')?;
            Some((rest.to_owned(), ThinkingLevel::named(level)?))
        };
        let is_whole = model.is_some_and(|model| {
            self.providers.get(provider).is_some_and(|provider| provider.models.contains_key(model))
        });
        if let Some(bare) = name.strip_suffix(':').filter(|_| !is_whole) {
            return Err(CatalogueError::NoLevel(bare.to_owned()));
        }
        let (provider, model, level) = match model {
            None => match split(provider) {
                Some((provider, level)) => (provider, None, Some(level)),
                None => (provider.to_owned(), None, None),
            },
            Some(model) => match split(model).filter(|_| !is_whole) {
                Some((model, level)) => (provider.to_owned(), Some(model), Some(level)),
                None => (provider.to_owned(), Some(model.to_owned()), None),
            },
        };
        let Some(known) = self.providers.get(&provider) else {
            let name = model.map_or_else(|| provider.clone(), |model| format!("{provider}/{model}"));
            if let Some((provider, model)) = self.named_model(&name) {
                return Ok(ModelName { provider: provider.to_owned(), model: model.to_owned(), level });
            }
            let known = self.suggestions(&name).map(|name| format!("`{name}`")).join(", ");
            return Err(CatalogueError::NoProvider { name, known, file: file.to_owned() });
        };
        let model = model.filter(|model| !model.is_empty()).or_else(|| known.default.clone());
        match model {
            Some(model) => Ok(ModelName { provider, model, level }),
            None => Err(CatalogueError::NoDefault(provider)),
        }
    }

    /// Finds the model of this id, or the default model of a family such as `claude`.
    ///
    /// One of [`PREFERRED`] precedes other providers, of which only a single one counts.
    fn named_model(&self, name: &str) -> Option<(&str, &str)> {
        let name = name.to_ascii_lowercase();
        let name = name.as_str();
        let is_family = |id: &str| id.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
        let with_id = self.models().filter(|(_, id)| *id == name);
        let defaults = self
            .providers
            .iter()
            .filter_map(|(provider, it)| Some((provider.as_str(), it.default.as_deref()?)))
            .filter(|(_, id)| is_family(id));
        [with_id.collect::<Vec<_>>(), defaults.collect()].into_iter().find_map(|found| {
            let preferred = PREFERRED.iter().find_map(|name| found.iter().find(|(it, _)| it == name));
            preferred.or(if let [only] = &found[..] { Some(only) } else { None }).copied()
        })
    }

    /// Lists the three nearest names of providers and models.
    fn suggestions(&self, name: &str) -> [String; 3] {
        let name = name.to_ascii_lowercase();
        let (name, provider) = (name.as_str(), name.split('/').next().unwrap_or_default());
        let rank = |known: &str, name: &str, is_preferred: bool| {
            let contains = known.contains(name);
            // A part, such as `sonnet` in `claude-sonnet-5`, may have a typing error.
            let parts = known.split(['-', '.', ':', '/']).map(|part| levenshtein(part, name));
            let whole = levenshtein(known, name);
            let near = parts.min().filter(|distance| !contains && *distance <= 2);
            let distance = near.unwrap_or(whole).min(whole);
            (!contains, contains && !is_preferred, distance, !is_preferred, whole)
        };
        let providers = self.providers.keys().map(|it| (rank(it, provider, true), it.clone()));
        let models = self.models().map(|(provider, id)| {
            (rank(id, name, PREFERRED.contains(&provider)), format!("{provider}/{id}"))
        });
        let mut names: Vec<_> = providers.chain(models).collect();
        names.sort_by_key(|(rank, _)| *rank);
        let mut names = names.into_iter().map(|(_, whole)| whole);
        std::array::from_fn(|_| names.next().unwrap_or_default())
    }

    /// All models with their providers.
    fn models(&self) -> impl Iterator<Item = (&str, &str)> {
        self.providers
            .iter()
            .flat_map(|(provider, it)| it.models.keys().map(move |id| (provider.as_str(), id.as_str())))
    }

    /// Returns the properties of a model without a base URL or key.
    ///
    /// Proxies that know these need no more.
    pub fn known(&self, model: &ModelName) -> Endpoint {
        let entry =
            self.providers.get(&model.provider).and_then(|provider| provider.models.get(&model.model));
        let entry = entry.cloned().unwrap_or_default();
        Endpoint {
            images: entry.images,
            context_window: entry.context_window,
            max_output: entry.max_output,
            thinking: entry.thinking,
            level: model.level,
            ..Endpoint::new(&model.provider, "", &model.model)
        }
    }

    /// Returns the protocol and endpoint of a model, without a key.
    ///
    /// `env` reads environment variables.
    ///
    /// # Errors
    /// When a value for the base URL or a header is missing.
    pub fn endpoint(
        &self,
        model: &ModelName,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(String, Endpoint), CatalogueError> {
        let Some(provider) = self.providers.get(&model.provider) else {
            return Err(CatalogueError::NoDefault(model.provider.clone()));
        };
        let entry = provider.models.get(&model.model).cloned().unwrap_or_default();
        let literal = provider.secrets().filter(|secret| secret.len() > MAX_PUBLIC);
        let mut secrets: Vec<ApiKey> = literal.filter_map(|secret| ApiKey::new(&secret)).collect();
        let no_variable =
            |variable| CatalogueError::NoVariable { provider: model.provider.clone(), variable };
        let mut base_url = entry.base_url.unwrap_or_else(|| provider.base_url.clone());
        for (name, value) in &provider.values {
            let place = format!("{{{name}}}");
            // The user's own address may need no variable.
            if base_url.contains(&place) {
                let value = expand_public(value, env, false, &mut secrets).map_err(no_variable)?;
                base_url = base_url.replace(&place, &value);
            }
        }
        if let Some((_, rest)) = base_url.split_once('{')
            && let Some((name, _)) = rest.split_once('}')
        {
            let (provider, name) = (model.provider.clone(), name.to_owned());
            return Err(CatalogueError::NoValue { provider, name });
        }
        let mut headers = Vec::new();
        for (name, value) in &provider.headers {
            let is_secret = holds_secret(name, value);
            let value = expand_public(value, env, is_secret, &mut secrets).map_err(no_variable)?;
            headers.push((name.clone(), value));
        }
        let texts =
            provider.texts.iter().filter_map(|(status, text)| Some((status.parse().ok()?, text.clone())));
        let protocol = entry.protocol.unwrap_or_else(|| provider.protocol.clone());
        let endpoint = Endpoint {
            secrets,
            auth: provider.auth.clone(),
            headers,
            images: entry.images,
            context_window: entry.context_window,
            max_output: entry.max_output,
            late_tools: entry.late_tools,
            price: entry.price,
            thinking: entry.thinking,
            level: model.level,
            texts: texts.collect(),
            compat: provider.compat.clone(),
            ..Endpoint::new(&model.provider, &base_url, &model.model)
        };
        Ok((protocol, endpoint))
    }
}

fn merge(base: &mut Table, overlay: Table) {
    for (key, value) in overlay {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(overlay)) => merge(base, overlay),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Whether a header's value is a secret, by its name or authentication scheme.
fn holds_secret(name: &str, value: &str) -> bool {
    let scheme = value.trim_start().split_once(' ').map(|(scheme, _)| scheme.to_ascii_lowercase());
    redaction::is_secret_name(name)
        || scheme.is_some_and(|scheme| ["basic", "bearer"].contains(&scheme.as_str()))
}

/// The known keys by their table; `*` stands for names of providers and models.
const KNOWN: &[(&str, &[&str])] = &[
    ("", &["format", "providers"]),
    (
        "providers.*",
        &[
            "label",
            "protocol",
            "base_url",
            "values",
            "auth",
            "api_key_env",
            "headers",
            "texts",
            "compat",
            "local",
            "default",
            "models",
            "source",
            "as_of",
        ],
    ),
    ("providers.*.auth", &["header", "prefix"]),
    (
        "providers.*.compat",
        &[
            "max_tokens_field",
            "usage_in_streaming",
            "finish_reason",
            "non_null_assistant_content",
            "reasoning_content",
            "strict_tools",
            "eager_input_streaming",
            "tool_choice",
            "most_tools",
            "longest_description",
            "thinking_field",
            "prompt_cache_key",
            "cache_control",
            "deployments",
        ],
    ),
    (
        "providers.*.models.*",
        &[
            "protocol",
            "base_url",
            "context_window",
            "max_output",
            "images",
            "late_tools",
            "thinking",
            "price",
            "source",
            "as_of",
        ],
    ),
    ("providers.*.models.*.thinking", &["off", "none", "minimal", "low", "medium", "high", "xhigh", "max"]),
    (
        "providers.*.models.*.price",
        &["input", "output", "cache_read", "cache_write", "cache_write_1h", "above"],
    ),
];

/// Refuses an unknown key, with its line and the nearest known one.
///
/// Types are checked later.
fn unknown_keys(text: &str) -> Result<(), String> {
    let Ok(table) = DeTable::parse(text) else { return Ok(()) };
    check_keys(table.get_ref(), &mut Vec::new(), text)
}

fn check_keys(table: &DeTable<'_>, path: &mut Vec<String>, text: &str) -> Result<(), String> {
    let pattern: Vec<&str> =
        path.iter().enumerate().map(|(at, part)| if at == 1 || at == 3 { "*" } else { part }).collect();
    let known = KNOWN.iter().find(|(below, _)| *below == pattern.join(".")).map(|(_, known)| *known);
    let mut members: Vec<_> = table.iter().collect();
    members.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in members {
        let name = key.get_ref().as_ref();
        if let Some(known) = known.filter(|known| !known.contains(&name)) {
            let line = text.as_bytes()[..key.span().start].iter().filter(|byte| **byte == b'\n').count() + 1;
            let nearest =
                known.iter().min_by_key(|known| levenshtein(known, name)).copied().unwrap_or_default();
            let place = if path.is_empty() { String::new() } else { format!(" in [{}]", path.join(".")) };
            return Err(format!("line {line}: there is no key `{name}`{place}; the nearest is `{nearest}`"));
        }
        if let DeValue::Table(inner) = value.get_ref() {
            path.push(name.to_owned());
            check_keys(inner, path, text)?;
            path.pop();
        }
    }
    Ok(())
}

/// Describes the error in the first invalid provider or model.
fn invalid_provider(providers: &Table) -> Option<String> {
    providers.iter().find_map(|(name, provider)| {
        let error = provider.clone().try_into::<Provider>().err()?;
        let models = provider.get("models").and_then(Value::as_table);
        let model_error = models.into_iter().flatten().find_map(|(id, entry)| {
            let error = entry.clone().try_into::<Entry>().err()?;
            Some(format!("providers.{name}.models.{id:?}: {}", without_values(error.message())))
        });
        Some(model_error.unwrap_or_else(|| format!("providers.{name}: {}", without_values(error.message()))))
    })
}

/// Removes the value from a message about a type, since it may be a misplaced key.
fn without_values(message: &str) -> String {
    let Some((before, expected)) = message.rsplit_once(", expected") else { return message.to_owned() };
    let quote = before.find(['"', '`']).unwrap_or(before.len());
    format!("{}, expected{expected}", before[..quote].trim_end())
}

fn is_price(price: &Price) -> bool {
    let above = price
        .above
        .iter()
        .flat_map(|tier| [tier.input, tier.output, tier.cache_read, tier.cache_write, tier.cache_write_1h]);
    let parts =
        [Some(price.input), Some(price.output), price.cache_read, price.cache_write, price.cache_write_1h];
    parts.into_iter().chain(above).flatten().all(|price| price.is_finite() && price >= 0.0)
}

/// Expands a text; only values of secret variables are secrets.
///
/// Names of regions, projects or accounts occur in many texts. If the text `is_secret`, all its values are.
fn expand_public(
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
    is_secret: bool,
    secrets: &mut Vec<ApiKey>,
) -> Result<String, String> {
    let found = RefCell::new(Vec::new());
    let read_variable = |variable: &str| {
        env(variable).inspect(|value| {
            // A value as short as a port number would redact parts of unrelated messages.
            if value.trim().len() > MAX_PUBLIC && (is_secret || policy::is_secret_name(variable)) {
                policy::learn_secret(value);
                found.borrow_mut().extend(ApiKey::new(value));
            }
        })
    };
    let value = expand(text, &read_variable)?;
    secrets.append(&mut found.into_inner());
    Ok(value)
}

/// Replaces each `${NAME}` by that variable.
///
/// The error names a variable that is not set. `${ONE,OTHER:-DEFAULT}` is the first that is set, else the
/// default.
pub(super) fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { break };
        out.push_str(before);
        let (names, default) = match name.split_once(":-") {
            Some((names, default)) => (names, Some(default)),
            None => (name, None),
        };
        let set = names.split(',').find_map(|name| env(name.trim()).filter(|value| !value.is_empty()));
        let value = set.or_else(|| default.map(str::to_owned)).ok_or_else(|| names.replace(',', " or "))?;
        out.push_str(&value);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn the_built_in_catalogue_is_valid_and_names_sources() {
        let catalogue = Catalogue::read(None, "models.toml").unwrap();
        let protocols = llm::protocol::Protocols::default();
        for (name, provider) in &catalogue.providers {
            assert!(provider.source.is_some() && provider.as_of.is_some(), "{name}");
            assert!(protocols.get(&provider.protocol).is_some(), "{name}");
            assert!(provider.default.as_ref().is_none_or(|it| provider.models.contains_key(it)), "{name}");
            let env = |_: &str| Some("value".to_owned());
            for (id, entry) in &provider.models {
                assert_eq!(entry.source.is_some(), entry.as_of.is_some(), "{name}/{id}");
                let price = entry.price.as_ref();
                assert!(price.is_none_or(|it| it.input > 0.0 || it.output > 0.0), "{name}/{id} is not free");
                let model = catalogue.parse_name(&format!("{name}/{id}"), "models.toml").unwrap();
                assert_eq!((&model.model, model.level), (id, None));
                let (protocol, endpoint) = catalogue.endpoint(&model, &env).unwrap();
                assert!(protocols.get(&protocol).is_some(), "{name}/{id}");
                assert!(!endpoint.base_url.contains(['{', '$']), "{name}/{id}: {}", endpoint.base_url);
            }
            // Without a default model, the name must contain one.
            assert_eq!(
                catalogue.parse_name(name, "models.toml").is_ok(),
                provider.default.is_some(),
                "{name}"
            );
        }
        assert!(catalogue.providers.len() >= 40, "{}", catalogue.providers.len());
    }

    #[test]
    fn long_requests_cost_more_at_every_provider() {
        let catalogue = Catalogue::read(None, "models.toml").unwrap();
        let mut served = 0;
        for (maker, others) in [
            ("google", &["google-vertex", "cloudflare-ai-gateway", "opencode"][..]),
            ("openai", &["amazon-bedrock", "azure", "cloudflare-ai-gateway", "opencode"]),
            ("xai", &["cloudflare-ai-gateway", "opencode"]),
            ("meta", &["opencode"]),
        ] {
            for (id, entry) in &catalogue.providers[maker].models {
                let Some(above) = entry.price.as_ref().and_then(|it| it.above.first()) else { continue };
                for name in others {
                    let is_it = |it: &str| it == id || it.strip_prefix("openai.") == Some(id);
                    let models = catalogue.providers[*name].models.iter().filter(|(it, _)| is_it(it));
                    for price in models.filter_map(|(_, entry)| entry.price.as_ref()) {
                        let long = llm::Usage { input: above.tokens + 1, ..llm::Usage::default() };
                        let short = llm::Usage { input: 1_000_000.min(above.tokens), ..long };
                        let rate = |usage: &llm::Usage| {
                            price.of(usage).map(|it| it.in_dollars() / usage.input as f64)
                        };
                        assert!(rate(&long).is_none_or(|it| it > rate(&short).unwrap()), "{name}/{id}");
                        served += 1;
                    }
                }
            }
        }
        assert!(served > 20, "{served}");
    }

    #[test]
    fn errors_do_not_repeat_values() {
        for (text, expected) in [
            (
                "[providers.x]\nbase_url = \"http://x\"\nlocal = \"sk-secret\"",
                "providers.x: invalid type: string, expected a boolean",
            ),
            (
                "[providers.x]\nbase_url = \"http://x\"\napi_key_env = \"sk-secret\"",
                "providers.x: invalid type: string, expected a sequence",
            ),
            (
                "[providers.x]\nbase_url = \"http://x\"\n[providers.x.models.m]\ncontext_window = \"sk-secret\"",
                "providers.x.models.\"m\": invalid type: string, expected u64",
            ),
            (
                "[providers.x]\nbase_url = \"http://x\"\ncompat = { thinking_field = \"sk-secret\" }",
                "providers.x: unknown variant, expected one of",
            ),
            (
                "[providers.x]\nbase_url = \"http://x\"\nmodels = \"sk-secret, expected\"",
                "providers.x: invalid type: string, expected a map",
            ),
            ("format = 1\nproviders = \"sk-secret\"", "invalid type: string, expected a map"),
            ("format = \"sk-secret\"", "it has format another, this Pilcrow supports format 1"),
        ] {
            let error = Catalogue::read(Some(text), "models.toml").unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("sk-secret"), "{text}: {error}");
        }
    }

    #[test]
    fn variables_have_alternatives_and_defaults() {
        let env = |name: &str| (name == "B").then(|| "b".to_owned());
        let read = |text| expand(text, &env);
        assert_eq!(read("x-${A,B}-y").unwrap(), "x-b-y");
        assert_eq!(read("${A:-d}${B:-d}").unwrap(), "db");
        assert_eq!(read("${A,C}").unwrap_err(), "A or C");
        assert_eq!(read("${A").unwrap(), "${A");
    }

    #[test]
    fn an_address_needs_only_the_variables_it_names() {
        let azure = "[providers.azure]\nbase_url = 'https://mine.example.com/openai'";
        let catalogue = Catalogue::read(Some(azure), "models.toml").unwrap();
        let model = catalogue.parse_name("azure/gpt-5", "models.toml").unwrap();
        let (_, endpoint) = catalogue.endpoint(&model, &none).unwrap();
        assert_eq!(endpoint.base_url, "https://mine.example.com/openai");
        let built_in = Catalogue::read(None, "models.toml").unwrap();
        let error = built_in.endpoint(&model, &none).unwrap_err();
        let variable = "AZURE_OPENAI_RESOURCE_NAME".to_owned();
        assert_eq!(error, CatalogueError::NoVariable { provider: "azure".to_owned(), variable });
    }

    #[test]
    fn names_of_models_find_their_provider() {
        let catalogue = Catalogue::read(None, "models.toml").unwrap();
        let found = |name: &str| match catalogue.parse_name(name, "models.toml") {
            Ok(ModelName { provider, model, level: None }) => format!("{provider}/{model}"),
            Ok(ModelName { provider, model, level: Some(level) }) => {
                format!("{provider}/{model} at {}", level.name())
            }
            Err(CatalogueError::NoProvider { known, .. }) => format!("? {known}"),
            Err(error) => format!("? {error}"),
        };
        let names = [
            "claude",
            "claude:high",
            "gpt",
            "gpt-5",
            "gpt-5.5:low",
            "gemini",
            "grok",
            "devstral",
            "sonnet",
            "opus",
            "haiku",
            "o3",
            "claude-sonnet",
            "gpt-9",
            "gpt-oss-120b",
            "kimi",
            "antropic",
            "qwen3",
            "claude/opus",
            "x-ai/grok-4.7",
            "nowhere",
        ];
        let table: String = names.map(|name| format!("{name:<14} {}\n", found(name))).concat();
        expect_test::expect![[r#"
            claude         anthropic/claude-opus-5-5
            claude:high    anthropic/claude-opus-5-5 at high
            gpt            openai/gpt-5.5
            gpt-5          openai/gpt-5
            gpt-5.5:low    openai/gpt-5.5 at low
            gemini         google/gemini-3.8-flash
            grok           xai/grok-4.7
            devstral       mistral/devstral-latest
            sonnet         ? `anthropic/claude-sonnet-5`, `anthropic/claude-sonnet-4-5`, `anthropic/claude-sonnet-4-6`
            opus           ? `anthropic/claude-opus-5`, `anthropic/claude-opus-4-5`, `anthropic/claude-opus-4-6`
            haiku          ? `anthropic/claude-haiku-4-5`, `anthropic/claude-haiku-5-5`, `anthropic/claude-haiku-4-5-20251001`
            o3             openai/o3
            claude-sonnet  ? `anthropic/claude-sonnet-5`, `anthropic/claude-sonnet-4-5`, `anthropic/claude-sonnet-4-6`
            gpt-9          ? `openai/gpt-4`, `openai/gpt-5`, `azure/gpt-4`
            gpt-oss-120b   cerebras/gpt-oss-120b
            kimi           ? `kimi-coding`, `moonshotai/kimi-k3`, `moonshotai-cn/kimi-k3`
            antropic       ? `anthropic`, `openrouter/anthropic/claude-opus-5`, `vercel-ai-gateway/anthropic/claude-opus-5`
            qwen3          ? `opencode/qwen3.8-max`, `opencode-go/qwen3.8-max`, `qwen-token-plan/qwen3.7-max`
            claude/opus    ? `anthropic/claude-opus-5`, `cloudflare-ai-gateway/claude-opus-5`, `opencode/claude-opus-5`
            x-ai/grok-4.7  openrouter/x-ai/grok-4.7
            nowhere        ? `azure`, `google`, `together`
        "#]].assert_eq(&table);
    }

    #[test]
    fn secrets_in_headers_are_redacted_but_not_url_parts() {
        let user = r#"
            [providers.x]
            protocol = "openai-completions"
            base_url = "http://x/{region}"
            values = { region = "${X_REGION}" }
            headers = { X-Gate = "Basic ${X_GATE}", X-Team = "${X_TEAM}", X-Who = "${X_USER} ${X_TEAM_TOKEN}" }
        "#;
        let catalogue = Catalogue::read(Some(user), "models.toml").unwrap();
        let env = |name: &str| match name {
            "X_GATE" => Some("gate-5f1c-words-of-a-header".to_owned()),
            "X_REGION" => Some("moon-west-1-of-a-header".to_owned()),
            "X_TEAM" => Some("team-of-a-header".to_owned()),
            "X_USER" => Some("user-of-a-header".to_owned()),
            "X_TEAM_TOKEN" => Some("token-4a7e-of-a-header".to_owned()),
            _ => None,
        };
        let model = catalogue.parse_name("x/m", "models.toml").unwrap();
        let (_, endpoint) = catalogue.endpoint(&model, &env).unwrap();
        assert_eq!(endpoint.headers[0].1, "Basic gate-5f1c-words-of-a-header");
        let text = format!("{:?} at {}", endpoint.headers, endpoint.base_url);
        let redacted = policy::Redactor::from_env().redact(&text).into_owned();
        for secret in ["gate-5f1c", "token-4a7e"] {
            assert!(!redacted.contains(secret), "{redacted}");
        }
        for open in ["moon-west-1-of-a-header", "team-of-a-header", "user-of-a-header"] {
            assert!(redacted.contains(open), "{redacted}");
        }
        assert_eq!(endpoint.secrets.len(), 2);
    }

    #[test]
    fn literal_secrets_in_urls_and_headers_are_redacted() {
        let user = r#"
            [providers.x]
            base_url = "http://me:pw-of-an-address@x/v1?key=key-of-an-address&v=version-of-it"
            headers = { X-Api-Key = "key-of-a-header", Authorization = "Bearer token-of-a-header", x-team = "the-tools-team" }
        "#;
        let catalogue = Catalogue::read(Some(user), "models.toml").unwrap();
        catalogue.learn_secrets();
        let secrets = ["pw-of-an-address", "key-of-an-address", "key-of-a-header", "token-of-a-header"];
        let open = ["version-of-it", "the-tools-team"];
        let text = [secrets.as_slice(), &open].concat().join(" ");
        let redacted = policy::Redactor::from_env().redact(&text).into_owned();
        assert_eq!(redacted, format!("{} {}", ["[redacted:api-key]"; 4].join(" "), open.join(" ")));
        let model = catalogue.parse_name("x/m", "models.toml").unwrap();
        let (_, endpoint) = catalogue.endpoint(&model, &none).unwrap();
        assert_eq!(endpoint.secrets.len(), secrets.len());
    }

    #[test]
    fn budgets_of_all_levels_can_be_set() {
        let mut catalogue = Catalogue::read(None, "models.toml").unwrap();
        catalogue.set_budgets(&BTreeMap::from([(ThinkingLevel::Low, 2_000), (ThinkingLevel::Max, 50_000)]));
        let thinking = |model: &str| &catalogue.providers["anthropic"].models[model].thinking;
        let budgets = thinking("claude-haiku-4-5");
        assert_eq!(budgets.at(ThinkingLevel::Low), Some((ThinkingLevel::Low, &Effort::Budget(2_000))));
        assert_eq!(budgets.at(ThinkingLevel::Max), Some((ThinkingLevel::Max, &Effort::Budget(50_000))));
        let word = Effort::Word("max".to_owned());
        assert_eq!(thinking("claude-sonnet-5").at(ThinkingLevel::Max), Some((ThinkingLevel::Max, &word)));
    }

    /// Returns the budgets of the levels from `minimal` to `max`.
    fn budgets_of(provider: &str, model: &str, set: &[(ThinkingLevel, u64)]) -> [u64; 6] {
        let mut catalogue = Catalogue::read(None, "models.toml").unwrap();
        catalogue.set_budgets(&set.iter().copied().collect());
        let thinking = &catalogue.providers[provider].models[model].thinking;
        use ThinkingLevel::{High, Low, Max, Medium, Minimal, Xhigh};
        [Minimal, Low, Medium, High, Xhigh, Max].map(|level| match thinking.at(level) {
            Some((_, Effort::Budget(tokens))) => *tokens,
            other => panic!("{level:?} of {model} has no budget: {other:?}"),
        })
    }

    #[test]
    fn the_highest_levels_default_to_the_models_maximum() {
        use ThinkingLevel::{High, Max, Medium, Minimal, Xhigh};
        let (haiku, flash) = (("anthropic", "claude-haiku-4-5"), ("google", "gemini-2.5-flash"));
        let opus = ("amazon-bedrock", "anthropic.claude-opus-4-1-20250805-v1:0");
        type Case = ((&'static str, &'static str), Vec<(ThinkingLevel, u64)>, [u64; 6]);
        let cases: [Case; 9] = [
            (haiku, vec![], [1024, 1024, 8192, 32_768, 62_976, 62_976]),
            (haiku, vec![(Xhigh, 20_000)], [1024, 1024, 8192, 32_768, 20_000, 62_976]),
            (haiku, vec![(High, 9000), (Max, 900_000)], [1024, 1024, 8192, 9000, 62_976, 62_976]),
            (opus, vec![(High, 9000)], [1024, 1024, 8192, 9000, 30_976, 30_976]),
            (opus, vec![(Xhigh, 20_000)], [1024, 1024, 8192, 30_976, 20_000, 30_976]),
            (flash, vec![], [512, 1024, 8192, 24_576, 24_576, 24_576]),
            (flash, vec![(High, 10_000)], [512, 1024, 8192, 10_000, 24_576, 24_576]),
            (flash, vec![(Xhigh, 20_000)], [512, 1024, 8192, 24_576, 20_000, 24_576]),
            (flash, vec![(Minimal, 1), (Medium, 99_999)], [512, 1024, 24_576, 24_576, 24_576, 24_576]),
        ];
        for ((provider, model), set, expected) in cases {
            assert_eq!(budgets_of(provider, model, &set), expected, "{model} {set:?}");
        }
    }

    #[test]
    fn budgets_are_the_documented_ones_in_every_model() {
        let catalogue = Catalogue::read(None, "models.toml").unwrap();
        let mut count = 0;
        for (id, entry) in catalogue.providers.values().flat_map(|provider| &provider.models) {
            let Some(Effort::Budget(ceiling @ 1..)) = entry.thinking.0.values().next_back() else { continue };
            for (level, effort) in &entry.thinking.0 {
                let expected = match level {
                    ThinkingLevel::Off => 0,
                    // The default is 512, or the smallest budget that the model accepts.
                    ThinkingLevel::Minimal if id.starts_with("gemini-2.5-pro") => 128,
                    ThinkingLevel::Minimal if id.starts_with("gemini-2.5") => 512,
                    ThinkingLevel::Minimal | ThinkingLevel::Low => 1024,
                    ThinkingLevel::Medium => 8192,
                    ThinkingLevel::High => 32_768.min(*ceiling),
                    ThinkingLevel::Xhigh | ThinkingLevel::Max => *ceiling,
                };
                assert_eq!(*effort, Effort::Budget(expected), "{id} {level:?}");
            }
            count += 1;
        }
        assert!(count > 100, "only {count} have budgets");
    }

    #[test]
    fn the_user_adds_and_corrects_providers() {
        let user = r#"
            format = 1
            [providers.cloudflare]
            protocol = "openai-completions"
            base_url = "https://api.cloudflare.com/client/v4/accounts/{account_id}/ai/v1"
            api_key_env = ["CLOUDFLARE_API_TOKEN"]
            values = { account_id = "${CLOUDFLARE_ACCOUNT_ID}" }
            texts = { 402 = "the plan has no Workers AI left" }
            default = "@cf/some/model"
            [providers.cloudflare.models."@cf/some/model"]
            context_window = 32_000
            thinking = { low = 1024, high = "much" }
            [providers.anthropic.models.claude-opus-5-5]
            max_output = 1
        "#;
        let catalogue = Catalogue::read(Some(user), "models.toml").unwrap();
        let corrected = &catalogue.providers["anthropic"].models["claude-opus-5-5"];
        assert_eq!((corrected.max_output, corrected.context_window), (Some(1), Some(1_000_000)));
        let model = catalogue.parse_name("cloudflare:high", "models.toml").unwrap();
        let env = |name: &str| (name == "CLOUDFLARE_ACCOUNT_ID").then(|| "abc".to_owned());
        let (protocol, endpoint) = catalogue.endpoint(&model, &env).unwrap();
        assert_eq!(protocol, "openai-completions");
        assert_eq!(endpoint.base_url, "https://api.cloudflare.com/client/v4/accounts/abc/ai/v1");
        assert_eq!((endpoint.model.as_str(), endpoint.level), ("@cf/some/model", Some(ThinkingLevel::High)));
        assert_eq!(endpoint.texts[&402], "the plan has no Workers AI left");
        assert_eq!(endpoint.secrets, [], "too short for a secret");
        let error = catalogue.endpoint(&model, &none).unwrap_err();
        expect_test::expect!["[providers.cloudflare] needs the variable CLOUDFLARE_ACCOUNT_ID; set it"]
            .assert_eq(&error.to_string());
    }

    #[test]
    fn names_are_split_at_a_thinking_level() {
        let user =
            "[providers.local]\nbase_url = 'http://localhost:1/v1'\n[providers.local.models.'odd:high']\n";
        let catalogue = Catalogue::read(Some(user), "f").unwrap();
        let parse = |name| catalogue.parse_name(name, "f").map(|name| (name.model, name.level));
        assert_eq!(parse("local/qwen3:8b"), Ok(("qwen3:8b".to_owned(), None)));
        assert_eq!(parse("local/qwen3:8b:low"), Ok(("qwen3:8b".to_owned(), Some(ThinkingLevel::Low))));
        assert_eq!(parse("local/qwen3:8b:LOW"), Ok(("qwen3:8b".to_owned(), Some(ThinkingLevel::Low))));
        let error = parse("local/qwen3:").unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown thinking level after `local/qwen3:`; use one of off, minimal, low, medium, high, xhigh, max"
        );
        assert_eq!(parse("local:"), Err(CatalogueError::NoLevel("local".to_owned())));
        assert_eq!(parse("local/a/b:none"), Ok(("a/b".to_owned(), Some(ThinkingLevel::Off))));
        assert_eq!(parse("local/odd:high"), Ok(("odd:high".to_owned(), None)));
        assert_eq!(parse("local"), Err(CatalogueError::NoDefault("local".to_owned())));
        let error = parse("loca/x").unwrap_err().to_string();
        expect_test::expect![[r#"
            unknown provider or model `loca/x`; did you mean one of `local`, `meta`, `groq`?
            `pilcrow models list` shows all; to add a provider, write its address into f:
            [providers.loca]
            base_url = "https://HOST/v1""#]]
        .assert_eq(&error);
        for name in ["gpt-9.5", "a b/x", "\"q\"\\", "/x", "é", "plain"] {
            let error = parse(name).unwrap_err().to_string();
            let (_, advice) = error.split_once(" into f:\n").unwrap();
            let table: toml::Table = advice.parse().unwrap();
            let written = table["providers"].as_table().unwrap().keys().next().unwrap();
            assert_eq!(written, name.split('/').next().unwrap());
        }
    }

    #[test]
    fn errors_name_the_problem_in_the_file() {
        for (user, words) in [
            ("[providers.x]\n", "base_url"),
            (
                "[providers.x]\nbase_url = 'http://x'\nbase_ur = 'sk'\n",
                "line 3: there is no key `base_ur` in [providers.x]; the nearest is `base_url`",
            ),
            (
                "[providers.x]\nbase_url = 'http://x'\n[providers.x.models.'a/b']\nmax_outptu = 1\n",
                "line 4: there is no key `max_outptu` in [providers.x.models.a/b]; the nearest is `max_output`",
            ),
            ("[provider.x]\n", "the nearest is `providers`"),
            ("[providers.openai]\ncompat = { cache_contol = true }\n", "the nearest is `cache_control`"),
            ("[providers.openai]\ntexts = { 4029 = 'x' }\n", "\"4029\" is not an HTTP status"),
            (
                "[providers.openai.models.m]\nprice = { input = -1.0, output = 1.0 }\n",
                "a price must not be negative",
            ),
            ("[providers.openai.models.m]\nmax_output = 0\n", "max_output is 0; omit it"),
            ("[providers.openai.models.m]\ncontext_window = 0\n", "context_window is 0; omit it"),
            ("format = 2\n", "it has format 2"),
            ("providers = [", "is invalid"),
            (
                "[providers.x]\nbase_url = 'http://x'\n[providers.x.models.m]\nthinking = { much = 1 }\n",
                "much",
            ),
        ] {
            let error = Catalogue::read(Some(user), "/home/models.toml").unwrap_err().to_string();
            assert!(error.starts_with("/home/models.toml is invalid") && error.contains(words), "{error}");
        }
        let catalogue =
            Catalogue::read(Some("[providers.x]\nbase_url = 'http://{place}/v1'\ndefault = 'm'\n"), "f")
                .unwrap();
        let model = catalogue.parse_name("x", "f").unwrap();
        let error = catalogue.endpoint(&model, &none).unwrap_err().to_string();
        assert!(error.contains("`{place}`") && error.contains("[providers.x.values]"), "{error}");
    }
}
