//! The layout of one kind of event, from its `format` file (Documentation/trace/events.rst of the kernel).

use super::order::{ByteOrder, signed};

/// A kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// The subsystem, such as `sched`; `ftrace` for the events of tracers.
    pub system: Box<str>,
    /// The name, such as `sched_switch`.
    pub name: Box<str>,
    /// The number by which events refer to this format.
    pub id: u16,
    /// The fields that only this kind has, in the order of the file.
    pub fields: Vec<Field>,
    /// The fields that every kind has, such as `common_pid`.
    pub common: Vec<Field>,
}

/// What the bytes of a field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// An unsigned number.
    Unsigned,
    /// A signed number.
    Signed,
    /// An address.
    Pointer,
    /// Several numbers, or a struct.
    Array,
    /// An array of `char`.
    Text,
}

/// Where the bytes of a field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the offset of the field.
    Fixed,
    /// At the offset in the low half of the field, from the start of the event; the length is in the high
    /// half (`__data_loc`).
    Dynamic,
    /// As `Dynamic`, but the offset counts from the end of the field (`__rel_loc`).
    Relative,
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name, such as `prev_pid`.
    pub name: Box<str>,
    /// The C type, such as `unsigned long`.
    pub type_name: Box<str>,
    /// What the bytes are.
    pub kind: FieldKind,
    /// Where the bytes are.
    pub place: Place,
    /// Bytes from the start of the event.
    pub offset: usize,
    /// Length in bytes.
    pub size: usize,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'event> {
    /// An unsigned number or an address.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// Text up to its first zero byte.
    Text(&'event [u8]),
    /// Numbers in the byte order of the file, or a struct.
    Bytes(&'event [u8]),
}

impl EventFormat {
    /// Reads the text of a format file; `None` if it has no name, number or fields.
    pub(super) fn parse(system: &str, text: &str) -> Option<EventFormat> {
        let (mut name, mut id) = (None, None);
        let (mut common, mut fields) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("name:") {
                name = Some(rest.trim());
            } else if let Some(rest) = line.strip_prefix("ID:") {
                id = rest.trim().parse().ok();
            } else if let Some(rest) = line.strip_prefix("field") {
                // The events of tracers mark some fields as `field special:`.
                let Some((_, declaration)) = rest.split_once(':') else { continue };
                let Some(field) = Field::parse(declaration) else { continue };
                let is_common = field.name.starts_with("common_");
                if is_common { common.push(field) } else { fields.push(field) }
            } else if line.starts_with("print fmt:") {
                break;
            }
        }
        Some(EventFormat { system: system.into(), name: name?.into(), id: id?, fields, common })
    }

    /// The field of this kind of event with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let all = self.fields.iter().chain(&self.common);
        all.into_iter().find(|field| &*field.name == name)
    }
}

impl Field {
    /// Reads `TYPE NAME; offset:N; size:N; signed:N;`.
    fn parse(text: &str) -> Option<Field> {
        let mut parts = text.split(';').map(str::trim);
        let declaration = parts.next()?;
        let (mut offset, mut size, mut is_signed) = (None, None, false);
        for part in parts {
            match part.split_once(':') {
                Some(("offset", number)) => offset = number.trim().parse::<u32>().ok(),
                Some(("size", number)) => size = number.trim().parse::<u32>().ok(),
                Some(("signed", number)) => is_signed = number.trim() == "1",
                _ => {}
            }
        }
        let (place, declaration) = match declaration.split_once(' ') {
            Some(("__data_loc", rest)) => (Place::Dynamic, rest),
            Some(("__rel_loc", rest)) => (Place::Relative, rest),
            _ => (Place::Fixed, declaration),
        };
        let (type_name, name, is_array) = split_declaration(declaration)?;
        let size = size? as usize;
        let is_array = is_array || place != Place::Fixed;
        let is_number = matches!(size, 0 | 1 | 2 | 4 | 8);
        let kind = if is_array {
            let is_text = type_name.split([' ', '[']).any(|word| word == "char");
            if is_text { FieldKind::Text } else { FieldKind::Array }
        } else if !is_number {
            FieldKind::Array
        } else if type_name.ends_with('*') {
            FieldKind::Pointer
        } else if is_signed {
            FieldKind::Signed
        } else {
            FieldKind::Unsigned
        };
        let (name, type_name) = (name.into(), type_name.into());
        Some(Field { name, type_name, kind, place, offset: offset? as usize, size })
    }

    /// The bytes of this field in the event `data`; `None` if they do not lie within it.
    #[inline]
    pub(super) fn bytes<'event>(
        &self,
        data: &'event [u8],
        order: ByteOrder,
    ) -> Option<&'event [u8]> {
        let end = self.offset.checked_add(self.size)?;
        // The events of tracers, and Android's markers, end in an array whose size the format gives as 0 or too large.
        let is_cut = matches!(self.kind, FieldKind::Array | FieldKind::Text);
        if self.place == Place::Fixed && is_cut && self.size == 0 {
            return data.get(self.offset..);
        }
        let held = data.get(self.offset..end);
        if self.place == Place::Fixed {
            return held.or_else(|| if is_cut { data.get(self.offset..) } else { None });
        }
        let locator = order.word(held?, 0)?;
        let (start, length) = ((locator & 0xffff) as usize, (locator >> 16) as usize);
        let start = if self.place == Place::Relative { end + start } else { start };
        data.get(start..start + length)
    }

    /// The value of this field in the event `data`; `None` if it does not lie within the event.
    #[inline]
    pub(super) fn value<'event>(
        &self,
        data: &'event [u8],
        order: ByteOrder,
    ) -> Option<Value<'event>> {
        let bytes = self.bytes(data, order)?;
        Some(match self.kind {
            FieldKind::Unsigned | FieldKind::Pointer => Value::Unsigned(order.number(bytes)),
            FieldKind::Signed => Value::Signed(signed(order.number(bytes), self.size)),
            FieldKind::Array => Value::Bytes(bytes),
            FieldKind::Text => {
                let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
                Value::Text(&bytes[..end])
            }
        })
    }
}

/// Splits a C declaration into type and name, and says whether it is an array: `char comm[16]`,
/// `char[] name`, `const char * name`.
fn split_declaration(text: &str) -> Option<(&str, &str, bool)> {
    let text = text.trim();
    let (declared, is_array) = match text.find('[') {
        Some(bracket) if text.ends_with(']') => (text[..bracket].trim_end(), true),
        _ => (text, text.contains('[')),
    };
    let start = declared.rfind(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
    let start =
        start.map_or(0, |last| last + declared[last..].chars().next().map_or(1, char::len_utf8));
    let (type_name, name) = declared.split_at(start);
    (!name.is_empty()).then(|| (type_name.trim_end(), name, is_array))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch
ID: 316
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:__data_loc char[] name;\toffset:28;\tsize:4;\tsigned:0;
\tfield:const char * where;\toffset:32;\tsize:8;\tsigned:0;
\tfield:__rel_loc u32[] list;\toffset:40;\tsize:4;\tsigned:0;
\tfield:unsigned long args[6];\toffset:44;\tsize:48;\tsigned:0;
\tfield:broken;\tsize:1;

print fmt: \"field:int no;\toffset:1;\tsize:1;\tsigned:0;\", REC->prev_pid
\tfield:int no;\toffset:1;\tsize:1;\tsigned:0;
";

    #[test]
    fn every_declaration_is_read() {
        let format = EventFormat::parse("sched", SWITCH).unwrap();
        assert_eq!((&*format.name, format.id, format.common.len()), ("sched_switch", 316, 2));
        let brief: Vec<_> = format
            .fields
            .iter()
            .map(|field| (&*field.name, &*field.type_name, field.kind, field.place))
            .collect();
        assert_eq!(
            brief,
            [
                ("prev_comm", "char", FieldKind::Text, Place::Fixed),
                ("prev_pid", "pid_t", FieldKind::Signed, Place::Fixed),
                ("name", "char[]", FieldKind::Text, Place::Dynamic),
                ("where", "const char *", FieldKind::Pointer, Place::Fixed),
                ("list", "u32[]", FieldKind::Array, Place::Relative),
                ("args", "unsigned long", FieldKind::Array, Place::Fixed),
            ]
        );
        assert_eq!(EventFormat::parse("sched", "ID: 3\n"), None);
        assert_eq!(EventFormat::parse("sched", "name: x\nID: 65536\n"), None);
    }

    #[test]
    fn values_lie_within_the_event() {
        let format = EventFormat::parse("sched", SWITCH).unwrap();
        let mut data = [0_u8; 60];
        data[8..12].copy_from_slice(b"cat\0");
        data[24..28].copy_from_slice(&(-2_i32).to_le_bytes());
        data[28..32].copy_from_slice(&(5 << 16 | 52_u32).to_le_bytes());
        data[40..44].copy_from_slice(&(4 << 16 | 8_u32).to_le_bytes());
        data[52..56].copy_from_slice(b"name");
        let order = ByteOrder::Little;
        let value = |name: &str| format.field(name).unwrap().value(&data, order);
        assert_eq!(value("prev_comm"), Some(Value::Text(b"cat")));
        assert_eq!(value("prev_pid"), Some(Value::Signed(-2)));
        assert_eq!(value("name"), Some(Value::Text(b"name")));
        assert_eq!(value("list"), Some(Value::Bytes(b"name")));
        assert_eq!(value("args").map(|_| ()), Some(()));
        let short = |name: &str| format.field(name).unwrap().value(&data[..26], order);
        assert_eq!((short("prev_pid"), short("name")), (None, None));
        let mut far = data;
        far[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(format.field("name").unwrap().value(&far, order), None);
    }
}
