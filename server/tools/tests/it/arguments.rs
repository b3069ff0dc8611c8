//! No arguments break a tool.

use proptest::prelude::*;
use serde_json::Value;
use talaria_domain::tool::ToolError;

use crate::bench;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        prop::collection::vec(inner, 0..4).prop_map(Value::from)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_arguments_break_a_tool(values in prop::collection::vec(any_json(), 9)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let bench = bench();
            let names = ["path", "content", "old_string", "new_string", "pattern", "limit", "offset", "todos", "patch"];
            let arguments = names.into_iter().map(str::to_owned).zip(values).collect();
            for tool in bench.tools.iter() {
                tool.preview(&arguments);
                tool.paths(&arguments, &bench.context);
                let known = tool.spec().parameters["properties"].as_object().unwrap();
                let fitting = arguments.clone().into_iter().filter(|(name, _)| known.contains_key(name)).collect();
                if let Err(ToolError::Fatal(error)) = tool.run(&fitting, &bench.context).await {
                    panic!("{}: {error}", tool.spec().name);
                }
            }
        });
    }
}
