//! What a server refuses is tried again where that helps, and told with what to do where it doesn't.

use talaria_client::Error;

use crate::fake_server::{delta, numbers, open, over, plain, problem, stream, watch};

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let outcome = watch(|connection, _| match connection {
        0 => plain("502 Bad Gateway", "text/html", "<h1>no</h1>"),
        1 => problem(503, "draining", true),
        2 => problem(429, "too_many_streams", true),
        _ => stream(&format!("{}{}{}", open(1), delta(1), over(1))),
    })
    .await;
    assert_eq!(numbers(&outcome.watched.unwrap()), [1]);
    assert_eq!(outcome.asked.len(), 4);
}

/// What a person is told, after one request.
async fn told(answer: Vec<u8>) -> String {
    let outcome = watch(|_, _| answer.clone()).await;
    assert_eq!(outcome.asked.len(), 1, "it isn't tried again");
    outcome.watched.unwrap_err().to_string()
}

#[tokio::test]
async fn who_is_unknown_is_told_to_log_in() {
    for answer in [
        problem(401, "unauthenticated", false),
        problem(401, "token_expired", false),
        plain("401 Unauthorized", "text/plain", "ask the gate"),
    ] {
        let told = told(answer).await;
        assert!(told.contains("talaria login --key"), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
}

#[tokio::test]
async fn a_problem_is_told_with_its_request() {
    let told = told(problem(404, "run_not_found", false)).await;
    assert_eq!(
        told,
        "Title of run_not_found: what happened (run_not_found, request req-1)"
    );
}

#[tokio::test]
async fn answers_of_others_are_told_as_they_are() {
    let later = told(problem(418, "code_of_a_later_version", false)).await;
    assert!(
        later.contains("418") && later.contains("Title of code_of_a_later_version: what happened"),
        "{later}"
    );
    let gate = told(plain("403 Forbidden", "text/html", "<h1>Not\nyou</h1>")).await;
    assert!(gate.contains("403") && gate.contains("<h1>Not you</h1>"), "{gate}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_a_credential() {
    let told = told(plain("302 Found", "text/plain", "")).await;
    assert!(told.contains("302") && told.contains("--url"), "{told}");
}

#[test]
fn an_address_must_be_one() {
    for address in ["localhost:8640", "ftp://host", "", "http://"] {
        let refused = talaria_client::Client::new(address, None, None);
        assert!(
            matches!(&refused, Err(Error::Local(text)) if text.contains("is no address")),
            "{address}"
        );
    }
}
