//! Which model answers when nobody names one: the configuration, a key in the environment, a model server on this host, or
//! the built-in demo.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use talaria_domain::model::ModelClient;
use talaria_model::catalog::Models;
use talaria_model::openai_chat::{OpenAiChat, ProviderConfig};
use talaria_model::probe;
use talaria_openapi::info::ModelInfo;

use crate::config::{Loaded, Provider, ProviderKind};

/// Keys that people have in their environment: variable, provider, address, model.
const KEYS: &[(&str, &str, &str, &str)] = &[
    ("OPENAI_API_KEY", "openai", "https://api.openai.com/v1", "gpt-5-mini"),
    (
        "OPENROUTER_API_KEY",
        "openrouter",
        "https://openrouter.ai/api/v1",
        "openrouter/auto",
    ),
];
/// Ports that model servers of a person's host listen on by themselves.
const PORTS: &[(u16, &str)] = &[(11_434, "ollama"), (1_234, "lmstudio"), (8_080, "llamacpp")];
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// The models that there are, and the one that answers by itself.
pub(crate) async fn choose(loaded: &Loaded) -> (Models, ModelInfo) {
    let mut clients: BTreeMap<String, Arc<dyn ModelClient>> = BTreeMap::new();
    for (name, provider) in &loaded.config.providers {
        clients.insert(name.clone(), client(name, provider));
    }
    if let Some(name) = loaded.config.model.clone() {
        let context_length = context_length(loaded, &name).await;
        return (
            Models::new(clients),
            ModelInfo {
                name,
                chosen_by: "configuration".to_owned(),
                context_length,
            },
        );
    }
    for (variable, name, base_url, model) in KEYS {
        if let Some(key) = loaded.environment.get(*variable).filter(|key| !key.trim().is_empty()) {
            clients
                .entry((*name).to_owned())
                .or_insert_with(|| client(name, &provider(base_url, Some(key.clone()))));
            return (Models::new(clients), info(format!("{name}/{model}"), "environment"));
        }
    }
    if let Some(found) = probe::find_local_server(PORTS).await {
        let name = found.provider.to_owned();
        clients
            .entry(name.clone())
            .or_insert_with(|| client(&name, &provider(&found.base_url, None)));
        return (
            Models::new(clients),
            ModelInfo {
                context_length: found.context_length,
                ..info(format!("{name}/{}", found.model), "found on this host")
            },
        );
    }
    (Models::new(clients), info("demo/demo".to_owned(), "built-in demo"))
}

/// How many tokens the configured model reads: as the configuration says, else as a server on this host says of itself.
async fn context_length(loaded: &Loaded, name: &str) -> Option<u64> {
    let (provider, model) = name.split_once('/')?;
    let provider = loaded.config.providers.get(provider)?;
    if provider.context_length.is_some() {
        return provider.context_length;
    }
    let key = provider.api_key.clone().map(talaria_domain::Secret::from);
    probe::context_length(&provider.base_url, key.as_ref(), model).await
}

/// Every provider's key that this server may come to know.
pub(crate) fn keys(loaded: &Loaded) -> impl Iterator<Item = &str> {
    let configured = loaded
        .config
        .providers
        .values()
        .filter_map(|provider| provider.api_key.as_deref());
    let environment = KEYS
        .iter()
        .filter_map(|(variable, ..)| loaded.environment.get(*variable));
    configured.chain(environment.map(String::as_str))
}

fn info(name: String, chosen_by: &str) -> ModelInfo {
    ModelInfo {
        name,
        chosen_by: chosen_by.to_owned(),
        context_length: None,
    }
}

fn provider(base_url: &str, api_key: Option<String>) -> Provider {
    Provider {
        kind: ProviderKind::OpenaiChat,
        base_url: base_url.to_owned(),
        api_key,
        context_length: None,
    }
}

fn client(name: &str, provider: &Provider) -> Arc<dyn ModelClient> {
    match provider.kind {
        ProviderKind::OpenaiChat => Arc::new(OpenAiChat::new(ProviderConfig {
            name: name.to_owned(),
            base_url: provider.base_url.clone(),
            api_key: provider.api_key.clone().map(talaria_domain::Secret::from),
            idle_timeout: IDLE_TIMEOUT,
        })),
    }
}
