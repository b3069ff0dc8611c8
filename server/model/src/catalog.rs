//! The models that there are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use talaria_domain::model::ModelClient;

use crate::demo::Demo;

/// The clients of all providers, by name. The provider `demo` is always there.
#[derive(Clone)]
pub struct Models {
    providers: Arc<BTreeMap<String, Arc<dyn ModelClient>>>,
}

impl Models {
    /// These providers, and the demo.
    #[must_use]
    pub fn new(mut providers: BTreeMap<String, Arc<dyn ModelClient>>) -> Self {
        providers
            .entry("demo".to_owned())
            .or_insert_with(|| Arc::new(Demo::new(Duration::ZERO)));
        Self {
            providers: Arc::new(providers),
        }
    }

    /// The client of `provider/model`, and the provider's own name of the model, which may hold slashes itself.
    #[must_use]
    pub fn resolve(&self, name: &str) -> Option<(Arc<dyn ModelClient>, String)> {
        let (provider, model) = name.split_once('/').filter(|(_, model)| !model.is_empty())?;
        self.providers
            .get(provider)
            .map(|client| (Arc::clone(client), model.to_owned()))
    }
}
