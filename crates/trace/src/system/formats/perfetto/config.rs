//! What the configuration in a trace says about the events that it could have.

use super::wire::Message;

/// Fields of `TraceConfig`, `DataSource` and `DataSourceConfig`.
const DATA_SOURCES: u32 = 2;
const CONFIG: u32 = 1;
const FTRACE_CONFIG: u32 = 100;

/// Fields of `FtraceConfig`: events as `group/name`, and apps whose markers are on.
const FTRACE_EVENTS: u32 = 1;
const ATRACE_APPS: u32 = 3;

/// Whether the recorder was to record kills: lmkd's markers, signals, or events of the kernel's lowmemorykiller.
/// `oom/mark_victim` is not enough, because it shows only kills by the OOM killer.
pub fn records_kills(config: &[u8]) -> bool {
    let ftrace = inner(config, DATA_SOURCES)
        .flat_map(|source| inner(source, CONFIG))
        .flat_map(|config| inner(config, FTRACE_CONFIG));
    ftrace.into_iter().any(|config| {
        inner(config, FTRACE_EVENTS).any(is_of_kills)
            || inner(config, ATRACE_APPS).any(|app| matches!(app, b"lmkd" | b"*"))
    })
}

fn is_of_kills(event: &[u8]) -> bool {
    matches!(
        event,
        b"signal/signal_generate"
            | b"signal/*"
            | b"lowmemorykiller/lowmemory_kill"
            | b"lowmemorykiller/*"
    )
}

/// The values of a field that are strings or messages.
fn inner(message: &[u8], field: u32) -> impl Iterator<Item = &[u8]> {
    Message::new(message)
        .filter(move |&(number, _)| number == field)
        .map(|(_, value)| value.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
        let mut message = vec![];
        let mut key = number << 3 | 2;
        while key >= 0x80 {
            message.push(key as u8 | 0x80);
            key >>= 7;
        }
        message.extend([key as u8, bytes.len() as u8]);
        message.extend(bytes);
        message
    }

    fn config(number: u32, text: &[u8]) -> Vec<u8> {
        let ftrace = field(FTRACE_CONFIG, &field(number, text));
        [field(9, b"x"), field(DATA_SOURCES, &field(CONFIG, &ftrace))].concat()
    }

    #[test]
    fn markers_of_lmkd_and_signals_would_show_kills_and_other_events_would_not() {
        assert!(records_kills(&config(ATRACE_APPS, b"lmkd")));
        assert!(records_kills(&config(FTRACE_EVENTS, b"signal/signal_generate")));
        assert!(!records_kills(&config(FTRACE_EVENTS, b"sched/sched_switch")));
        assert!(!records_kills(&config(ATRACE_APPS, b"com.example")));
        let whole = config(ATRACE_APPS, b"lmkd");
        for end in 0..whole.len() {
            assert!(!records_kills(&whole[..end]));
        }
    }
}
