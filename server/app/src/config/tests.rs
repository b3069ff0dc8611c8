use super::*;

#[test]
fn the_commented_default_says_the_defaults_and_names_every_key() {
    assert_eq!(parse(DEFAULT_CONFIG), Ok(Config::default()));
    // Uncommented, it must still be understood: every key in it exists.
    let uncommented: String = DEFAULT_CONFIG
        .lines()
        .map(|line| line.strip_prefix("#: ").unwrap_or(line).to_owned() + "\n")
        .collect();
    let config = parse(&uncommented).unwrap();
    let server = Server {
        // Left out, there is none, and the other is made of `listen`: the file can show examples only.
        admin_listen: Some(SocketAddr::from(([127, 0, 0, 1], 8641))),
        public_url: Some("https://agent.example.org".to_owned()),
        ..Server::default()
    };
    assert_eq!((config.agent, config.server), (Agent::default(), server));
    for key in [
        "model",
        "providers",
        "kind",
        "base_url",
        "api_key",
        "context_length",
        "max_rounds",
        "workspace",
        "workspace_roots",
        "approval_policy",
        "approval_timeout",
        "listen",
        "admin_listen",
        "public_url",
        "hosts",
        "origins",
        "max_streams",
        "max_active_runs",
    ] {
        assert!(uncommented.contains(&format!("{key}:")), "{key}");
    }
}

#[test]
fn a_mistake_is_told_with_its_line_and_the_nearest_key() {
    let error = parse("model: demo/demo\nagent:\n  max_round: 3\n").unwrap_err();
    assert!(
        error.contains("max_round") && error.contains("Did you mean `max_rounds`?"),
        "{error}"
    );
    assert!(
        error.contains("line 3") || error.contains(":3:") || error.contains("3:"),
        "{error}"
    );
}

#[test]
fn values_of_the_environment_are_put_in_and_missing_ones_are_named() {
    let environment = BTreeMap::from([("KEY".to_owned(), "a: b # c".to_owned())]);
    assert_eq!(expand("x${KEY}y", &environment), Ok("xa: b # cy".to_owned()));
    assert_eq!(expand("${NONE}", &environment), Err("NONE".to_owned()));
    assert_eq!(
        expand("$KEY ${no name} ${", &environment),
        Ok("$KEY ${no name} ${".to_owned())
    );
}

#[test]
fn a_model_needs_a_provider_of_the_file() {
    let mut config = parse("model: nowhere/x").unwrap();
    assert!(
        resolve(&mut config, &BTreeMap::new())
            .unwrap_err()
            .contains("nowhere/x")
    );
}
