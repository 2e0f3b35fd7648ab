//! Kills as Chrome's trace events in JSON, for ui.perfetto.dev and chrome://tracing. Each kill is a
//! process of the trace, with the threads of the victim and the killer, and the falling memory.

use serde_json::{Value, json};

use super::kill::{Kill, KillStep};

/// The trace of `kills`. Times are microseconds since the first kill began.
pub fn chrome(kills: &[Kill]) -> Value {
    let first_ns = kills.iter().map(|kill| kill.start_ns).min().unwrap_or(0);
    let events: Vec<Value> = kills
        .iter()
        .enumerate()
        .flat_map(|(place, kill)| {
            // Two kills may have the same pid.
            let track = place as u64 + 1;
            let since_us = (kill.start_ns - first_ns) as f64 / 1000.0;
            let steps = kill.steps.iter().map(move |step| step_event(track, since_us, step));
            let memory = kill.rss_curve.iter().map(move |&(time_us, bytes)| {
                json!({"ph": "C", "pid": track, "tid": 0, "name": "resident bytes",
                       "ts": since_us + time_us, "args": {"bytes": bytes}})
            });
            std::iter::once(named(track, kill)).chain(steps).chain(memory)
        })
        .collect();
    json!({"displayTimeUnit": "ns", "traceEvents": events})
}

fn named(track: u64, kill: &Kill) -> Value {
    let name = format!("kill of {} ({})", kill.comm, kill.pid);
    json!({"ph": "M", "pid": track, "name": "process_name", "args": {"name": name}})
}

fn step_event(track: u64, since_us: f64, step: &KillStep) -> Value {
    let (start, thread) = (since_us + step.start_us, step.thread);
    match step.duration_us > 0.0 {
        true => json!({"ph": "X", "pid": track, "tid": thread, "name": step.name, "ts": start,
                       "dur": step.duration_us}),
        false => json!({"ph": "i", "s": "t", "pid": track, "tid": thread, "name": step.name,
                        "ts": start}),
    }
}
