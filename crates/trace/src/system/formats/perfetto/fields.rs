//! The numbers of fields in Perfetto's messages, from `fields.txt`, which tools/perfetto_fields.py writes from
//! the descriptors in Google's package.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::system::kernel::{Decoder, decoder};

/// Every row of the file: message, number, name.
const ROWS: &str = include_str!("fields.txt");

/// A kernel event that has its own message.
#[derive(Debug)]
pub struct EventRow {
    /// The kernel's name.
    pub name: &'static str,
    /// Names of the fields by number; empty if events of this name have no `Kind`.
    pub fields: Vec<(u32, &'static str)>,
    /// How the event becomes a `Kind`.
    pub decoder: Option<Decoder>,
}

/// The tables by number.
#[derive(Debug, Default)]
pub struct Tables {
    /// Fields of `FtraceEvent`, except its head.
    pub events: Vec<Option<EventRow>>,
    /// Fields of `TracePacket`.
    pub packets: Vec<Option<&'static str>>,
    /// Lines of /proc/meminfo.
    pub meminfo: Vec<Option<&'static str>>,
    /// Lines of /proc/vmstat.
    pub vmstat: Vec<Option<&'static str>>,
}

/// The tables, read once.
pub static TABLES: LazyLock<Tables> = LazyLock::new(read);

fn read() -> Tables {
    let mut tables = Tables::default();
    let mut fields: HashMap<&str, Vec<(u32, &'static str)>> = HashMap::new();
    let mut events = Vec::new();
    for row in ROWS.lines() {
        let mut words = row.split(' ');
        let (Some(message), Some(number), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let Ok(number) = number.parse::<u32>() else { continue };
        match message {
            "FtraceEvent" => events.push((number, name)),
            "TracePacket" => place(&mut tables.packets, number, name),
            "meminfo" => place(&mut tables.meminfo, number, name),
            "vmstat" => place(&mut tables.vmstat, number, name),
            event => fields.entry(event).or_default().push((number, name)),
        }
    }
    for (number, name) in events {
        let fields = fields.remove(name).unwrap_or_default();
        let decoder = if fields.is_empty() { None } else { decoder(name) };
        place(&mut tables.events, number, EventRow { name, fields, decoder });
    }
    tables
}

fn place<Row>(rows: &mut Vec<Option<Row>>, number: u32, row: Row) {
    let place = number as usize;
    if rows.len() <= place {
        rows.resize_with(place + 1, || None);
    }
    rows[place] = Some(row);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_with_a_decoder_has_its_fields() {
        let mut decoded = 0;
        for row in TABLES.events.iter().flatten() {
            let has_decoder = decoder(row.name).is_some();
            assert_eq!(
                has_decoder,
                !row.fields.is_empty(),
                "{}: tools/perfetto_fields.py",
                row.name
            );
            decoded += usize::from(has_decoder);
        }
        assert!(decoded > 25, "{decoded}");
        assert_eq!(TABLES.events[4].as_ref().unwrap().name, "sched_switch");
        assert_eq!(TABLES.packets[9], Some("process_stats"));
        assert_eq!(TABLES.meminfo[2], Some("MemFree"));
        assert_eq!(TABLES.vmstat[41], Some("pswpin"));
    }
}
