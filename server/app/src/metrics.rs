//! Measuring: one recorder for the process, shown as OpenMetrics.

use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use talaria_domain::metrics as names;
use talaria_domain::scope::TaskScope;
use tokio_util::sync::CancellationToken;

/// How often measurements are taken into their histograms; they wait in memory until then.
const UPKEEP_PAUSE: Duration = Duration::from_secs(5);
const SECONDS: &[f64] = &[
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0,
];
const EVENTS: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 512.0, 1024.0, 4096.0];

/// Begins to measure. A process that measures already (a test with two servers) keeps its first recorder: `None`.
pub(crate) fn start(scope: &TaskScope, stop: CancellationToken) -> Result<Option<PrometheusHandle>, BuildError> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full(names::SSE_LAG_EVENTS.to_owned()), EVENTS)?
        .set_buckets(SECONDS)?
        .build_recorder();
    let handle = recorder.handle();
    if ::metrics::set_global_recorder(recorder).is_err() {
        return Ok(None);
    }
    describe();
    let upkeep = handle.clone();
    scope.spawn(async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(UPKEEP_PAUSE) => upkeep.run_upkeep(),
            }
        }
    });
    Ok(Some(handle))
}

fn describe() {
    use ::metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_gauge!(names::RUNS_ACTIVE, "Runs that this server works on.");
    describe_histogram!(names::RUN_SECONDS, "Time that a server worked on a run.");
    describe_histogram!(
        names::FIRST_TOKEN_SECONDS,
        "Time from a request to a model to the first thing that it says."
    );
    describe_gauge!(names::SSE_CONNECTIONS, "Open streams.");
    describe_histogram!(
        names::SSE_LAG_EVENTS,
        "Events that a reader is behind, each time that it reads."
    );
    describe_counter!(names::SSE_RESETS, "Streams that were told to load a snapshot.");
    describe_histogram!(
        names::EVENT_APPEND_SECONDS,
        "Time from the hand-over of a write to its commit."
    );
    describe_histogram!(
        names::HTTP_REQUESTS_SECONDS,
        "Time from the head of a request to the head of its answer."
    );
}

/// Everything measured, as OpenMetrics: the exporter writes the older text form, in which a counter's family has the name of
/// its sample, and nothing marks the end.
pub(crate) fn open_metrics(handle: &PrometheusHandle) -> String {
    let mut text = String::new();
    for line in handle.render().lines().filter(|line| !line.is_empty()) {
        let family = line
            .strip_prefix("# TYPE ")
            .or_else(|| line.strip_prefix("# HELP "))
            .and_then(|rest| rest.split(' ').next());
        match family.and_then(|family| Some((family, family.strip_suffix("_total")?))) {
            Some((family, name)) => text.push_str(&line.replacen(family, name, 1)),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text + "# EOF\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counters_family_has_no_suffix_and_the_end_is_marked() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        ::metrics::with_local_recorder(&recorder, || {
            describe();
            ::metrics::counter!(names::SSE_RESETS, "reason" => "cursor_ahead").increment(2);
            ::metrics::gauge!(names::RUNS_ACTIVE).set(3.0);
        });
        let text = open_metrics(&handle);
        for line in [
            "# TYPE talaria_sse_resets counter",
            "# HELP talaria_sse_resets Streams that were told to load a snapshot.",
            "talaria_sse_resets_total{reason=\"cursor_ahead\"} 2",
            "talaria_runs_active 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
    }
}
