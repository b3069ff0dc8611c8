//! The frame of the tools for files: arguments, paths, a thread that may block, stopping. A tool is only its idea.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use talaria_domain::tool::{Arguments, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use tokio_util::sync::CancellationToken;

use crate::arguments;
use crate::paths::{self, DeniedPaths};

/// What is particular to a tool for files.
pub(crate) trait FileTool: Send + Sync + 'static {
    /// Its arguments.
    type Wanted: DeserializeOwned + Send + 'static;

    /// What it is.
    fn spec() -> ToolSpec;

    /// One line for people about a call.
    fn preview(arguments: &Arguments) -> String {
        arguments::preview(arguments, "path")
    }

    /// The paths that a call names, for the planning of parallel calls; `None` when they can't be told.
    fn named(arguments: &Arguments) -> Option<Vec<String>> {
        Some(vec![arguments.get("path")?.as_str()?.to_owned()])
    }

    /// Does the work, on a thread that may block. An error is for the model.
    fn work(wanted: Self::Wanted, place: &Place) -> Result<String, String>;
}

/// Where a call works, and how it is told to stop.
pub(crate) struct Place {
    pub(crate) workspace: Arc<Path>,
    pub(crate) denied: Arc<DeniedPaths>,
    pub(crate) cancel: CancellationToken,
}

impl Place {
    /// The canonical path of what a model names, where it may go.
    pub(crate) fn resolve(&self, named: &str) -> Result<PathBuf, String> {
        paths::resolve(named, &self.workspace, &self.denied).map_err(|error| error.to_string())
    }

    /// A path as people and models read it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        paths::shown(path, &self.workspace)
    }

    /// Whether a canonical path is out of bounds.
    pub(crate) fn is_denied(&self, path: &Path) -> bool {
        self.denied.is_denied(path, &self.workspace)
    }
}

/// A tool for files as the agent sees it.
pub(crate) struct Framed<T> {
    spec: ToolSpec,
    denied: Arc<DeniedPaths>,
    idea: PhantomData<T>,
}

impl<T: FileTool> Framed<T> {
    pub(crate) fn new(denied: Arc<DeniedPaths>) -> Self {
        Self {
            spec: T::spec(),
            denied,
            idea: PhantomData,
        }
    }

    fn place(&self, context: &ToolContext) -> Place {
        Place {
            workspace: Arc::clone(&context.workspace),
            denied: Arc::clone(&self.denied),
            cancel: context.cancel.clone(),
        }
    }
}

#[async_trait]
impl<T: FileTool> Tool for Framed<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn preview(&self, arguments: &Arguments) -> String {
        T::preview(arguments)
    }

    fn paths(&self, arguments: &Arguments, context: &ToolContext) -> Option<Vec<PathBuf>> {
        let place = self.place(context);
        let resolved = T::named(arguments)?.into_iter().map(|named| place.resolve(&named).ok());
        resolved.collect()
    }

    async fn run(&self, arguments: &Arguments, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let wanted: T::Wanted = arguments::read(arguments)?;
        let place = self.place(context);
        if place.cancel.is_cancelled() {
            return Err(ToolError::Respond("the call was stopped before it began".to_owned()));
        }
        let done = tokio::task::spawn_blocking(move || T::work(wanted, &place)).await;
        done.map_err(|error| ToolError::Fatal(error.into()))?
            .map(ToolOutput::ok)
            .map_err(ToolError::Respond)
    }
}
