//! `oracle`: libCacheSim's oracleGeneral, records of 24 bytes, little endian: u32 seconds, u64
//! object id, u32 size, i64 index of the object's next request or -1. The format has no mark and no
//! operation; recognition checks the last field.

use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::record::{IdReader, Operation, Record, RecordReader, Traits};
use crate::sniff::Confidence;
use crate::text::SECOND_NS;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "oracle",
    summary: "libCacheSim oracleGeneral: object requests without operations",
    has_columns: false,
    has_parts: false,
    has_accesses: true,
    sniff,
    open,
};

const RECORD_BYTES: usize = 24;

/// Records per call of `read`.
const RECORDS_PER_READ: usize = 4096;

/// Records that recognition checks.
const RECORDS_SNIFFED: usize = 1000;

struct Fields {
    seconds: u32,
    id: u64,
    bytes: u32,
    next: i64,
}

impl Fields {
    /// `record` has exactly `RECORD_BYTES`.
    #[inline(always)]
    fn decode(record: &[u8; RECORD_BYTES]) -> Fields {
        let [t0, t1, t2, t3, i0, i1, i2, i3, i4, i5, i6, i7, rest @ ..] = *record;
        let [b0, b1, b2, b3, n0, n1, n2, n3, n4, n5, n6, n7] = rest;
        Fields {
            seconds: u32::from_le_bytes([t0, t1, t2, t3]),
            id: u64::from_le_bytes([i0, i1, i2, i3, i4, i5, i6, i7]),
            bytes: u32::from_le_bytes([b0, b1, b2, b3]),
            next: i64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]),
        }
    }
}

fn sniff(head: &[u8]) -> Confidence {
    let (records, _) = head.as_chunks::<RECORD_BYTES>();
    let mut seconds = 0;
    // Text has no zero byte; a size below 16 MiB has a zero byte.
    let is_binary = records.first().is_some_and(|record| record.contains(&0));
    let fits = records.iter().take(RECORDS_SNIFFED).enumerate().all(|(index, record)| {
        let fields = Fields::decode(record);
        let is_ordered = fields.seconds >= seconds;
        seconds = fields.seconds;
        // Without a next request, some writers store -1, others the largest number.
        let is_next = fields.next == -1 || fields.next > index as i64;
        is_ordered && is_next
    });
    Confidence::Likely.when(is_binary && fits)
}

fn open(input: Input, _options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    Ok(Box::new(Oracle { input }))
}

struct Oracle {
    input: Input,
}

impl RecordReader for Oracle {
    fn read(&mut self, records: &mut Vec<Record>, ledger: &mut Ledger) -> Result<bool, Error> {
        let Some(held) = self.input.need(RECORD_BYTES)? else {
            return Ok(false);
        };
        let (whole, _) = held.as_chunks::<RECORD_BYTES>();
        let whole = &whole[..whole.len().min(RECORDS_PER_READ)];
        records.extend(whole.iter().map(|record| {
            let fields = Fields::decode(record);
            Record {
                time_ns: i64::from(fields.seconds) * SECOND_NS as i64,
                bytes: u64::from(fields.bytes),
                ..Record::new(Operation::Read, fields.id)
            }
        }));
        let count = whole.len();
        ledger.see(b"request", count as u64);
        self.input.consume(count * RECORD_BYTES);
        Ok(true)
    }

    fn traits(&self) -> Traits {
        Traits { has_clock: true, has_sizes: true, ..Traits::BARE_IDS }
    }

    fn ids(&mut self) -> Option<&mut dyn IdReader> {
        Some(self)
    }
}

impl IdReader for Oracle {
    fn read_ids(&mut self, ids: &mut Vec<u64>, ledger: &mut Ledger) -> Result<bool, Error> {
        let Some(held) = self.input.need(RECORD_BYTES)? else {
            return Ok(false);
        };
        let (whole, _) = held.as_chunks::<RECORD_BYTES>();
        ids.extend(whole.iter().map(|record| Fields::decode(record).id));
        let count = whole.len();
        ledger.see(b"request", count as u64);
        self.input.consume(count * RECORD_BYTES);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::read_bytes;
    use crate::pipeline::{Pipeline, PipelineOptions};

    fn encode(seconds: u32, id: u64, bytes: u32, next: i64) -> Vec<u8> {
        let mut record = seconds.to_le_bytes().to_vec();
        record.extend(id.to_le_bytes());
        record.extend(bytes.to_le_bytes());
        record.extend(next.to_le_bytes());
        record
    }

    #[test]
    fn records_are_read_and_a_torn_one_is_refused() {
        let bytes = [encode(5, u64::MAX, 512, 1), encode(6, u64::MAX, 512, -1)].concat();
        assert_eq!(sniff(&bytes), Confidence::Likely);
        let (records, _) = read_bytes(&FORMAT, &bytes).unwrap();
        assert_eq!(records[1].time_ns, 6_000_000_000);
        assert_eq!((records[1].address, records[1].bytes), (u64::MAX, 512));
        let error = read_bytes(&FORMAT, &bytes[..30]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sample at byte 24: ends within a record: 6 bytes of at least 24"
        );
    }

    #[test]
    fn read_ids_gives_the_ids_of_the_records() {
        let records = (0..30_000u64).map(|index| encode(index as u32, index % 777, 1, -1));
        let bytes = records.collect::<Vec<_>>().concat();
        let open = || {
            let input = Input::from_bytes("sample", bytes.clone()).unwrap();
            Pipeline::of_input(input, &PipelineOptions::default()).unwrap()
        };
        let (mut short, mut long) = (open(), open());
        let (mut pages, mut of_rows, mut batch) = (Vec::new(), Vec::new(), Vec::new());
        while short.next_accesses(&mut batch).unwrap() {
            pages.append(&mut batch);
        }
        while let Some(rows) = long.next_rows().unwrap() {
            of_rows.append(&mut rows.events.page);
        }
        assert_eq!(pages, of_rows);
        let facts = |pipeline: &Pipeline| {
            let header = pipeline.header();
            (header.events, header.pages, header.seen.clone())
        };
        assert_eq!(facts(&short), facts(&long));
        assert_eq!(facts(&short).1, Some(777));
    }

    #[test]
    fn decreasing_times_and_next_requests_in_the_past_are_not_recognised() {
        assert_eq!(sniff(&[encode(5, 1, 1, -1), encode(4, 1, 1, -1)].concat()), Confidence::No);
        assert_eq!(sniff(&encode(5, 1, 1, 0)), Confidence::No);
    }
}
