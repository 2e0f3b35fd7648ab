//! `damo`: records of DAMON in JSON, as `damo record` of version 3.4 writes them, by default compressed by zlib
//! (`to_kvpairs` in its files _damo_records.py and _damon.py): a list of records, one per target; each has snapshots,
//! and a snapshot has the regions of an aggregation interval. Numbers may be texts, with commas between thousands.
//!
//! The time of a region is the end of its snapshot, as the time of the kernel's event damon_aggregated is.

mod json;

use super::Format;
use crate::Error;
use crate::input::Input;
use crate::sniff::Confidence;
use crate::system::{Event, Kind, Names, SystemReader, Tally};
use json::{Token, Tokens};
use memchr::memmem;

/// The row of this format.
pub const FORMAT: Format =
    Format { name: "damo", summary: "records of DAMON in JSON, by damo", sniff, open };

/// Tokens of a call of `read`.
const TOKENS_PER_READ: usize = 1 << 14;

/// Regions of a snapshot that are kept; DAMON has 1,000 at most by default.
const REGIONS_MAX: usize = 1 << 16;

/// Recognises a list of objects that have a target and snapshots.
pub fn sniff(head: &[u8]) -> Confidence {
    let inside = head.trim_ascii_start().strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    let is_list = inside.is_some_and(|inside| inside.starts_with(b"{"));
    let has = |name: &[u8]| memmem::find(head, name).is_some();
    Confidence::Certain.when(is_list && has(b"\"target_id\"") && has(b"\"snapshots\""))
}

/// Opens a reader.
///
/// # Errors
/// None; the file is read by [`SystemReader::read`].
pub fn open(input: Input) -> Result<Box<dyn SystemReader>, Error> {
    Ok(Box::new(Reader {
        tokens: Tokens::new(input),
        state: State::default(),
        names: Names::default(),
        is_finished: false,
    }))
}

struct Reader {
    tokens: Tokens,
    state: State,
    names: Names,
    /// Whether the losses are in the tally.
    is_finished: bool,
}

impl SystemReader for Reader {
    fn read(&mut self, events: &mut Vec<Event>, tally: &mut Tally) -> Result<bool, Error> {
        for _ in 0..TOKENS_PER_READ {
            let Some(token) = self.tokens.read()? else {
                let is_first = !std::mem::replace(&mut self.is_finished, true);
                if is_first && !self.tokens.is_whole() {
                    tally.lose("the end of the file: it is cut", 1);
                }
                return Ok(false);
            };
            self.state.take(token, events, tally);
        }
        Ok(true)
    }

    fn names(&self) -> &Names {
        &self.names
    }
}

/// An object or a list, by its place in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Records,
    Record,
    Snapshots,
    Snapshot,
    Regions,
    Region,
    Accesses,
    Age,
    Other,
}

/// A region as far as it is read.
#[derive(Clone, Copy, Default)]
struct Region {
    start: Option<u64>,
    end: Option<u64>,
    accesses: Option<u32>,
    age: Option<u32>,
}

/// A name that is needed, by its place in the table.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Field {
    TargetId,
    Snapshots,
    EndTime,
    Regions,
    Start,
    End,
    Accesses,
    Samples,
    Age,
    Intervals,
    #[default]
    Other,
}

impl Field {
    fn of(name: &[u8]) -> Field {
        match name {
            b"target_id" => Field::TargetId,
            b"snapshots" => Field::Snapshots,
            b"end_time" => Field::EndTime,
            b"regions" => Field::Regions,
            b"start" => Field::Start,
            b"end" => Field::End,
            b"nr_accesses" => Field::Accesses,
            b"samples" => Field::Samples,
            b"age" => Field::Age,
            b"aggr_intervals" => Field::Intervals,
            _ => Field::Other,
        }
    }
}

/// Where the reader is, and what it has of the current record, snapshot and region.
#[derive(Default)]
struct State {
    /// The open objects and lists, the innermost last.
    places: Vec<Place>,
    /// The last name.
    field: Field,
    target: u64,
    end_ns: Option<i64>,
    region: Region,
    /// The regions of the snapshot, and how many there are beyond the limit.
    regions: Vec<Region>,
    further: u64,
}

impl State {
    fn take(&mut self, token: Token<'_>, events: &mut Vec<Event>, tally: &mut Tally) {
        match token {
            Token::Name(name) => self.field = Field::of(name),
            Token::Value(value) => self.value(value),
            Token::Open { is_object } => self.begin(is_object),
            Token::Close => match self.places.pop() {
                Some(Place::Region) if self.regions.len() < REGIONS_MAX => {
                    self.regions.push(self.region);
                }
                Some(Place::Region) => self.further += 1,
                Some(Place::Snapshot) => self.end_snapshot(events, tally),
                _ => {}
            },
        }
    }

    fn begin(&mut self, is_object: bool) {
        let place = match (self.places.last(), self.field, is_object) {
            (None, _, false) => Place::Records,
            (Some(Place::Records), _, true) => Place::Record,
            (Some(Place::Record), Field::Snapshots, false) => Place::Snapshots,
            (Some(Place::Snapshots), _, true) => Place::Snapshot,
            (Some(Place::Snapshot), Field::Regions, false) => Place::Regions,
            (Some(Place::Regions), _, true) => Place::Region,
            (Some(Place::Region), Field::Accesses, true) => Place::Accesses,
            (Some(Place::Region), Field::Age, true) => Place::Age,
            _ => Place::Other,
        };
        match place {
            Place::Record => self.target = 0,
            Place::Snapshot => {
                self.end_ns = None;
                self.regions.clear();
                self.further = 0;
            }
            Place::Region => self.region = Region::default(),
            _ => {}
        }
        self.places.push(place);
    }

    fn value(&mut self, value: &[u8]) {
        let found = number(value);
        let small = found.and_then(|number| u32::try_from(number).ok());
        match (self.places.last(), self.field) {
            // Of physical addresses it is 0 or null.
            (Some(Place::Record), Field::TargetId) => self.target = found.unwrap_or(0),
            (Some(Place::Snapshot), Field::EndTime) => {
                self.end_ns = found.and_then(|number| i64::try_from(number).ok());
            }
            (Some(Place::Region), Field::Start) => self.region.start = found,
            (Some(Place::Region), Field::End) => self.region.end = found,
            (Some(Place::Accesses), Field::Samples) => self.region.accesses = small,
            (Some(Place::Age), Field::Intervals) => self.region.age = small,
            _ => {}
        }
    }

    /// Passes on the regions of a snapshot.
    fn end_snapshot(&mut self, events: &mut Vec<Event>, tally: &mut Tally) {
        let count = self.regions.len() as u64 + self.further;
        let regions = u32::try_from(count).unwrap_or(u32::MAX);
        tally.count(b"damon_aggregated", count);
        if self.further > 0 {
            tally.lose("regions of a snapshot beyond 65,536", self.further);
        }
        let mut incomplete = 0;
        for region in self.regions.drain(..) {
            let Region { start: Some(start), end: Some(end), accesses, age } = region else {
                incomplete += 1;
                continue;
            };
            // damo marks the end of a record by a region of no bytes.
            if start == end {
                continue;
            }
            let (Some(time_ns), Some(accesses), true) = (self.end_ns, accesses, start < end) else {
                incomplete += 1;
                continue;
            };
            let kind = Kind::Region { target: self.target, start, end, accesses, age, regions };
            events.push(Event { time_ns, cpu: None, tid: 0, kind });
        }
        if incomplete > 0 {
            tally.lose("regions without a time, addresses or a number of samples", incomplete);
        }
    }
}

/// A whole number, with commas between thousands; a fraction is dropped.
fn number(text: &[u8]) -> Option<u64> {
    let mut parts = text.splitn(2, |&byte| byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
    let mut digits = whole.iter().filter(|&&byte| byte != b',').peekable();
    digits.peek().filter(|_| fraction.iter().all(u8::is_ascii_digit))?;
    digits.try_fold(0u64, |sum, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<(Vec<Event>, Tally), Error> {
        let mut reader = open(Input::from_bytes("sample", text)?)?;
        let (mut events, mut tally) = (Vec::new(), Tally::default());
        while reader.read(&mut events, &mut tally)? {}
        assert!(!reader.read(&mut events, &mut tally)?);
        Ok((events, tally))
    }

    fn region(time_ns: i64, target: u64, rest: (u64, u64, u32, Option<u32>, u32)) -> Event {
        let (start, end, accesses, age, regions) = rest;
        let kind = Kind::Region { target, start, end, accesses, age, regions };
        Event { time_ns, cpu: None, tid: 0, kind }
    }

    const SAMPLE: &str = r#"[
 {"kdamond_idx": 0, "intervals": {"sample_us": "5000", "regions": [{"start": 1, "end": 2}]},
  "target_id": 7, "scheme_filters": [],
  "snapshots": [
   {"start_time": "900", "end_time": "1000", "regions": [
     {"start": "4,096", "end": "8,192", "nr_accesses": {"samples": 3, "percent": null},
      "age": {"usec": null, "aggr_intervals": "12"}, "sz_filter_passed": "0 B"},
     {"start": 140737488351232, "end": 140737488355328, "nr_accesses": {"samples": 0}}],
    "total_bytes": "8192", "sample_interval_us": null},
   {"start_time": "1000", "end_time": "1100", "regions": [
     {"start": "0", "end": "0", "nr_accesses": {"samples": -1}},
     {"start": "1", "end": "9", "nr_accesses": {"samples": null, "percent": 5}},
     {"start": "9", "end": "1", "nr_accesses": {"samples": 1}}]}],
  "data_source": "unknown"},
 {"target_id": null, "snapshots": [
   {"end_time": "1050", "regions": [{"start": "0", "end": "4", "nr_accesses": {"samples": 2.0}}]},
   {"regions": [{"start": "0", "end": "4", "nr_accesses": {"samples": 2}}]}]}
]"#;

    #[test]
    fn regions_have_their_target_time_and_age() {
        let (events, tally) = read(SAMPLE.as_bytes()).unwrap();
        let far = 140_737_488_351_232;
        assert_eq!(
            events,
            [
                region(1000, 7, (4096, 8192, 3, Some(12), 2)),
                region(1000, 7, (far, far + 4096, 0, None, 2)),
                region(1050, 0, (0, 4, 2, None, 1)),
            ]
        );
        assert_eq!(tally.events()["damon_aggregated"], 7);
        let lost: Vec<_> = tally.losses().collect();
        assert_eq!(lost, [("regions without a time, addresses or a number of samples", 3)]);
    }

    #[test]
    fn a_cut_file_gives_the_snapshots_before_the_cut() {
        let cut = SAMPLE.find("\"data_source\"").unwrap();
        let (events, tally) = read(&SAMPLE.as_bytes()[..cut]).unwrap();
        assert_eq!(events.len(), 2);
        assert!(tally.losses().any(|(what, count)| what.contains("is cut") && count == 1));
    }

    #[test]
    fn a_snapshot_of_too_many_regions_keeps_the_first() {
        let region = "{\"start\": 1, \"end\": 2, \"nr_accesses\": {\"samples\": 1}}";
        let many = vec![region; REGIONS_MAX + 3].join(",");
        let text = format!(
            "[{{\"target_id\":0,\"snapshots\":[{{\"end_time\":5,\"regions\":[{many}]}}]}}]"
        );
        let (events, tally) = read(text.as_bytes()).unwrap();
        assert_eq!(events.len(), REGIONS_MAX);
        assert!(tally.losses().any(|(_, count)| count == 3));
    }

    #[test]
    fn only_lists_of_records_are_recognised() {
        assert_eq!(sniff(SAMPLE.as_bytes()), Confidence::Certain);
        for text in ["[1, \"target_id\", \"snapshots\"]", "{\"target_id\": 1}", "[{\"a\": 1}]", ""]
        {
            assert_eq!(sniff(text.as_bytes()), Confidence::No, "{text}");
        }
    }

    #[test]
    fn numbers_may_have_commas_and_a_fraction() {
        for (text, expected) in [
            ("18,446,744,073,709,551,615", Some(u64::MAX)),
            ("12.75", Some(12)),
            ("0", Some(0)),
            ("18446744073709551616", None),
            ("-1", None),
            ("null", None),
            ("4.000 KiB", None),
            ("4 KiB", None),
            ("", None),
            (",", None),
        ] {
            assert_eq!(number(text.as_bytes()), expected, "{text}");
        }
    }
}
