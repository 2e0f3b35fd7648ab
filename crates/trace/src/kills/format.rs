//! The layout of events: reads the `format` file of each event in tracefs, and the format of the ring
//! buffer's pages (`events/header_page`).

/// Longest format text that is read. The longest of Linux 6.18 has 20 KB without its print format.
const TEXT_BYTES_MAX: usize = 1 << 18;

/// Position and size of a field in its event.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    offset: usize,
    bytes: usize,
    is_signed: bool,
}

/// The layout of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name of the event without its group.
    pub name: String,
    /// Number of the event in the ring buffer.
    pub number: u16,
    fields: Vec<Field>,
}

impl Layout {
    /// Parses the text of a format file; `None` if the text is no format. The format of pages has no
    /// number.
    pub fn parse(text: &str) -> Option<Layout> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let fields: Vec<Field> = text.lines().filter_map(field).collect();
        (!fields.is_empty()).then(|| Layout {
            name: value("name: ").unwrap_or_default().to_owned(),
            number: value("ID: ").and_then(|text| text.trim().parse().ok()).unwrap_or(0),
            fields,
        })
    }

    /// Whether the event has the field.
    pub fn has(&self, field: &str) -> bool {
        self.find(field).is_some()
    }

    /// Offset of a field.
    pub fn offset(&self, field: &str) -> Option<usize> {
        Some(self.find(field)?.offset)
    }

    /// The number in a field, with its sign; `None` if the event has no such field or ends before it.
    pub fn number(&self, event: &[u8], field: &str) -> Option<i64> {
        let field = self.find(field)?;
        let bytes = event.get(field.offset..field.offset.checked_add(field.bytes)?)?;
        let mut word = [0; 8];
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let value = u64::from_le_bytes(word);
        let unused = 64 - 8 * u32::try_from(bytes.len()).ok().filter(|&count| count > 0)?;
        Some(match field.is_signed {
            // The arithmetic shift to the right extends the sign.
            true => (value << unused) as i64 >> unused,
            false => value as i64,
        })
    }

    /// The first 16 bytes of a text field; `None` if the event has no such field.
    pub fn name16(&self, event: &[u8], field: &str) -> Option<[u8; 16]> {
        let field = self.find(field)?;
        let bytes = event.get(field.offset..field.offset.checked_add(field.bytes)?)?;
        let mut name = [0; 16];
        let count = bytes.len().min(name.len());
        name[..count].copy_from_slice(&bytes[..count]);
        Some(name)
    }

    fn find(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Parses a line such as `\tfield:char comm[16];\toffset:20;\tsize:16;\tsigned:0;`.
fn field(line: &str) -> Option<Field> {
    let line = line.trim_start().strip_prefix("field:")?;
    let mut parts = line.split(';').map(str::trim);
    let declared = parts.next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
    let (offset, bytes) = (number("offset:")?, number("size:")?);
    let is_signed = number("signed:") == Some(1);
    let name = declared.rsplit([' ', '*']).next()?;
    let name = name.split('[').next()?.to_owned();
    Some(Field { name, offset, bytes, is_signed })
}

/// The text of a format file without the event's print format, which is most of the text.
pub fn without_print(text: &str) -> &str {
    text.split("\nprint fmt:").next().unwrap_or(text).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.18, shortened.
    const TEXT: &str = "name: signal_generate\nID: 261\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:int code;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;\n\
        \tfield:struct mm_struct * mm;\toffset:28;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"sig=%d\", REC->sig\n";

    #[test]
    fn fields_are_read_at_the_offsets_of_the_format() {
        let layout = Layout::parse(TEXT).unwrap();
        assert_eq!((layout.name.as_str(), layout.number), ("signal_generate", 261));
        let mut event = vec![0; 36];
        event[8..12].copy_from_slice(&(-6i32).to_le_bytes());
        event[12..16].copy_from_slice(b"app\0");
        event[28..36].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(layout.number(&event, "code"), Some(-6));
        assert_eq!(layout.number(&event, "mm"), Some(-1));
        assert_eq!(layout.name16(&event, "comm").unwrap(), *b"app\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(layout.number(&event[..30], "mm"), None);
        assert_eq!(layout.number(&event, "comm"), None, "a text is no number");
        assert!(layout.has("mm") && !layout.has("group_dead"));
        assert_eq!(Layout::parse(without_print(TEXT)), Some(layout));
    }

    #[test]
    fn text_that_is_no_format_is_refused() {
        for text in ["", "name: x\nID: 70000\n", "field:;offset:1", "\tfield:int x;\toffset:-1;"] {
            assert_eq!(Layout::parse(text), None, "{text}");
        }
        let lying = "\tfield:int x;\toffset:18446744073709551615;\tsize:4;\tsigned:1;\n";
        assert_eq!(Layout::parse(lying).unwrap().number(&[0; 8], "x"), None);
    }
}
