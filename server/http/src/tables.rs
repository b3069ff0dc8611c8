//! The tables of `docs/API-TABLES.md`: made from the code, so that they can't be wrong.

use talaria_openapi::errors::ErrorCode;
use talaria_openapi::events::EventBody;

use crate::router::OPEN_ROUTES;
use crate::scopes::SCOPES;

/// The whole page.
#[must_use]
pub fn api_tables() -> String {
    let mut page = String::from(
        "# Tables of the API\n\nMade from the code by `talaria-server openapi --tables`; a test keeps them true.\n",
    );
    scopes(&mut page);
    errors(&mut page);
    events(&mut page);
    page
}

fn scopes(page: &mut String) {
    page.push_str("\n## Scopes\n\nWhat a credential needs, checked before anything else of a request is read.\n\n");
    page.push_str("| route | scopes |\n|---|---|\n");
    page.extend(SCOPES.iter().map(|(method, path, needed)| {
        let needed: Vec<String> = needed.iter().map(|scope| format!("`{scope}`")).collect();
        let needed = match needed.is_empty() {
            true => "any valid credential".to_owned(),
            false => needed.join(" and "),
        };
        format!("| `{method} {path}` | {needed} |\n")
    }));
    let open: Vec<String> = OPEN_ROUTES.iter().map(|path| format!("`{path}`")).collect();
    page.push_str(&format!("\nOpen without a credential: {}.\n", open.join(", ")));
}

fn errors(page: &mut String) {
    page.push_str("\n## Errors\n\n`code` of a problem document.\n\n");
    page.push_str("| status | code | meaning | the same request may succeed later |\n|---|---|---|---|\n");
    page.extend(ErrorCode::ALL.iter().map(|code| {
        let later = if code.is_retryable() { "yes" } else { "no" };
        let (status, name, title) = (code.status(), code.as_str(), code.title());
        format!("| {status} | `{name}` | {title} | {later} |\n")
    }));
}

fn events(page: &mut String) {
    page.push_str(
        "\n## Events\n\n`type` of an event of the log. Deltas are said again by `message.completed` and results.\n\n",
    );
    page.extend(EventBody::TYPES.iter().map(|event_type| format!("- `{event_type}`\n")));
}
