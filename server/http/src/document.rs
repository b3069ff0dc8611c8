//! The OpenAPI document: what the handlers say of themselves, and what holds for all of them.

use axum::http::Method;
use talaria_openapi::errors::{ErrorCode, Problem};
use utoipa::ToSchema as _;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::response::Response;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};

use crate::scopes;

const PROBLEM_TYPE: &str = "application/problem+json";

/// Adds the credential, the problems that any route can answer with, and their media type.
pub(crate) fn complete(mut document: OpenApi) -> OpenApi {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An API key, a token made with one, or <home>/token."))
        .build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("key", SecurityScheme::Http(bearer));
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            add_problems(operation, method == Method::GET);
            name_scopes(operation, &method, path);
            operation.responses.responses.values_mut().for_each(name_problem_type);
        }
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let all = [
        (Method::GET, &mut item.get),
        (Method::POST, &mut item.post),
        (Method::PUT, &mut item.put),
        (Method::PATCH, &mut item.patch),
        (Method::DELETE, &mut item.delete),
    ];
    all.into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Says which scopes an operation needs, in the place where the document says which credential.
fn name_scopes(operation: &mut Operation, method: &Method, path: &str) {
    if let Some(needed) = scopes::needed(method, path) {
        let needed = needed.iter().map(|scope| scope.as_str());
        operation.security = Some(vec![SecurityRequirement::new("key", needed)]);
    }
}

/// What the layers in front of the handlers refuse: see `auth`, `body`, `params` and `middleware`.
fn add_problems(operation: &mut Operation, is_get: bool) {
    let is_open = operation.security.is_some();
    let mut statuses = vec![403, 500];
    if !is_open {
        statuses.extend([401, 404, 422, 429, 503]);
    }
    if operation.request_body.is_some() {
        statuses.extend([400, 413, 415]);
    }
    if is_get {
        statuses.push(406);
    }
    for status in statuses {
        let responses = &mut operation.responses.responses;
        responses.entry(status.to_string()).or_insert_with(|| problem(status));
    }
}

fn problem(status: u16) -> RefOr<Response> {
    let codes = ErrorCode::ALL.iter().filter(|code| code.status() == status);
    let codes: Vec<String> = codes.map(|code| format!("`{}`", code.as_str())).collect();
    let schema = Ref::from_schema_name(Problem::name());
    let response = ResponseBuilder::new()
        .description(codes.join(", "))
        .content(PROBLEM_TYPE, ContentBuilder::new().schema(Some(schema)).build());
    response.build().into()
}

/// Handlers name the schema of a problem only; its media type is always the same.
fn name_problem_type(response: &mut RefOr<Response>) {
    let RefOr::T(response) = response else { return };
    let is_problem = |content: &RefOr<Content>| {
        let RefOr::T(content) = content else { return false };
        let Some(RefOr::Ref(schema)) = &content.schema else {
            return false;
        };
        schema.ref_location.ends_with(&format!("/{}", Problem::name()))
    };
    if response.content.get("application/json").is_some_and(is_problem)
        && let Some(content) = response.content.shift_remove("application/json")
    {
        response.content.insert(PROBLEM_TYPE.to_owned(), content);
    }
}
