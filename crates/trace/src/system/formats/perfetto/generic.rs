//! Kernel events without a message of their own: `GenericFtraceEvent`, which names its fields, and events that
//! the bundle describes by a descriptor (`GenericEventDescriptor`).

use std::collections::HashMap;

use super::out::Out;
use super::wire::{Message, Value, last_of};
use crate::system::Kind;
use crate::system::kernel::{Context, Decoder, Fields, decoder};

/// Descriptors that are kept; a bound on hostile files.
const DESCRIPTORS_MAX: usize = 4096;
const FIELDS_MAX: usize = 64;

/// Events that bundles describe, by the number of their field in `FtraceEvent`.
#[derive(Debug, Default)]
pub struct GenericEvents {
    described: HashMap<u32, Described>,
}

#[derive(Debug)]
struct Described {
    name: String,
    fields: Vec<(u32, String)>,
    decoder: Option<Decoder>,
}

impl GenericEvents {
    /// Adds a description: field 1 is the number, field 2 a `DescriptorProto`.
    pub fn describe(&mut self, description: &[u8]) {
        let number = last_of(description, 1).map_or(0, Value::number) as u32;
        let descriptor = last_of(description, 2).map_or(&b""[..], Value::bytes);
        if self.described.len() >= DESCRIPTORS_MAX && !self.described.contains_key(&number) {
            return;
        }
        let (mut name, mut fields) = (String::new(), Vec::new());
        for (field, value) in Message::new(descriptor) {
            match field {
                1 => name = String::from_utf8_lossy(value.bytes()).into_owned(),
                2 if fields.len() < FIELDS_MAX => {
                    let text = last_of(value.bytes(), 1).map_or(&b""[..], Value::bytes);
                    let number = last_of(value.bytes(), 3).map_or(0, Value::number) as u32;
                    fields.push((number, String::from_utf8_lossy(text).into_owned()));
                }
                _ => {}
            }
        }
        // The name of the message may have a group before the event.
        let event = name.rsplit(['.', '/']).next().unwrap_or_default().to_owned();
        let decoder = decoder(&event);
        self.described.insert(number, Described { name: event, fields, decoder });
    }

    /// Whether a bundle described events with this number.
    pub fn is_described(&self, number: u32) -> bool {
        self.described.contains_key(&number)
    }

    /// An event that a bundle described; it is counted under its name.
    pub fn described_event(
        &self,
        number: u32,
        payload: &[u8],
        tid: u32,
        out: &mut Out<'_>,
    ) -> Option<Kind> {
        let row = self.described.get(&number)?;
        out.tally.count(row.name.as_bytes(), 1);
        let fields = DescribedFields { row, payload };
        row.decoder.and_then(|decoder| decoder(&fields, Context { tid }, out.names))
    }

    /// A `GenericFtraceEvent`; its name is counted apart.
    pub fn event(&self, payload: &[u8], tid: u32, out: &mut Out<'_>) -> Option<Kind> {
        let name = last_of(payload, 1).map_or(&b""[..], Value::bytes);
        out.tally.count_generic(name);
        let decoder = decoder(std::str::from_utf8(name).ok()?)?;
        decoder(&NamedFields { payload }, Context { tid }, out.names)
    }
}

struct DescribedFields<'event> {
    row: &'event Described,
    payload: &'event [u8],
}

impl DescribedFields<'_> {
    fn value(&self, name: &str) -> Option<Value<'_>> {
        let (number, _) = self.row.fields.iter().find(|(_, known)| known == name)?;
        last_of(self.payload, *number)
    }
}

impl Fields for DescribedFields<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            Value::Number(number) => Some(number as i64),
            Value::Bytes(_) => None,
        }
    }

    fn text(&self, name: &str) -> Option<&[u8]> {
        match self.value(name)? {
            Value::Bytes(bytes) => Some(bytes),
            Value::Number(_) => None,
        }
    }
}

/// Fields with their names: 1 is the name, 3 a text, 4 a number with and 5 without sign.
struct NamedFields<'event> {
    payload: &'event [u8],
}

impl NamedFields<'_> {
    fn value(&self, name: &str) -> Option<Value<'_>> {
        let mut fields = Message::new(self.payload).take(FIELDS_MAX);
        let field = fields.find(|&(number, value)| {
            number == 2 && last_of(value.bytes(), 1).map(Value::bytes) == Some(name.as_bytes())
        })?;
        let values = Message::new(field.1.bytes());
        values.filter(|(number, _)| matches!(number, 3..=5)).last().map(|(_, value)| value)
    }
}

impl Fields for NamedFields<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            Value::Number(number) => Some(number as i64),
            Value::Bytes(_) => None,
        }
    }

    fn text(&self, name: &str) -> Option<&[u8]> {
        match self.value(name)? {
            Value::Bytes(bytes) => Some(bytes),
            Value::Number(_) => None,
        }
    }
}
