//! A small trace.dat file of either version and byte order, with two CPUs, for the tests and as a seed.

use super::order::ByteOrder;

const FORMATS: [(&str, &str); 3] = [
    (
        "block",
        "name: block_rq_issue\nID: 7\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
         \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
         \tfield:unsigned int nr_sector;\toffset:12;\tsize:4;\tsigned:0;\n\
         \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
         \tfield:char rwbs[8];\toffset:24;\tsize:8;\tsigned:0;\n\
         \tfield:char comm[16];\toffset:32;\tsize:16;\tsigned:0;\n\nprint fmt: \"\"\n",
    ),
    (
        "filemap",
        "name: mm_filemap_add_to_page_cache\nID: 8\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
         \tfield:unsigned long i_ino;\toffset:8;\tsize:8;\tsigned:0;\n\
         \tfield:unsigned long index;\toffset:16;\tsize:8;\tsigned:0;\n\
         \tfield:dev_t s_dev;\toffset:24;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n",
    ),
    (
        "oom",
        "name: mark_victim\nID: 9\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
         \tfield:int pid;\toffset:8;\tsize:4;\tsigned:1;\n\
         \tfield:__data_loc char[] comm;\toffset:12;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n",
    ),
];

pub(crate) const PAGE: usize = 256;

/// Writes numbers of one byte order.
pub(crate) struct Bytes(pub(crate) bool, pub(crate) Vec<u8>);

impl Bytes {
    pub(crate) fn number(&mut self, number: u64, size: usize) -> &mut Bytes {
        let bytes = number.to_le_bytes();
        let part = bytes[..size].iter().copied();
        if self.0 {
            self.1.extend(part.rev())
        } else {
            self.1.extend(part)
        }
        self
    }

    pub(crate) fn text(&mut self, text: &[u8]) -> &mut Bytes {
        self.1.extend(text);
        self
    }

    /// The word before an entry: its kind or length, and the time since the entry before.
    pub(crate) fn entry(&mut self, kind: u64, delta: u64) -> &mut Bytes {
        let word = if self.0 { kind << 27 | delta } else { delta << 5 | kind };
        self.number(word, 4)
    }
}

/// A page of the ring buffer with these entries.
pub(crate) fn page(is_big: bool, time: u64, flags: u64, entries: &[u8], behind: &[u8]) -> Vec<u8> {
    let mut page = Bytes(is_big, Vec::new());
    page.number(time, 8).number(flags | entries.len() as u64, 8).text(entries).text(behind);
    page.1.resize(PAGE, 0);
    page.1
}

fn request(is_big: bool, sector: u64) -> Vec<u8> {
    let mut event = Bytes(is_big, Vec::new());
    event.number(7, 2).number(0, 2).number(40, 4).number(8 << 20 | 1, 4).number(8, 4);
    event.number(sector, 8).text(b"WS\0\0\0\0\0\0").text(b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0");
    event.1
}

/// Two pages of CPU 0 and one of CPU 1: a time extend, an absolute time, a discarded event, an event with a
/// length of its own, lost events with and without a count.
fn pages(is_big: bool) -> [Vec<u8>; 2] {
    let mut first = Bytes(is_big, Vec::new());
    first.entry(30, 1).number(1, 4); // 1 + 2^27 ns later
    first.entry(12, 5).text(&request(is_big, 80));
    first.entry(29, 2).number(8, 4).number(0, 4);
    first.entry(0, 1).number(4 + 28, 4);
    first.number(8, 2).number(0, 2).number(41, 4).number(99, 8).number(3, 8).number(8 << 20, 4);
    let mut second = Bytes(is_big, Vec::new());
    second.entry(31, 7).number(2, 4); // the absolute time 2^28 + 7
    second.entry(12, 0).text(&request(is_big, 88));
    second.entry(29, 0);
    let mut count = Bytes(is_big, Vec::new());
    count.number(3, 8);
    let first = page(is_big, 1000, 0, &first.1, b"");
    let second = page(is_big, 1 << 28, 1 << 31 | 1 << 30, &second.1, &count.1);
    let mut other = Bytes(is_big, Vec::new());
    other.entry(5, 0).number(9, 2).number(0, 2).number(u64::MAX, 4).number(40, 4);
    other.number(3 << 16 | 16, 4).text(b"me\0\0");
    other.entry(2, 1).number(99, 2).number(0, 6); // of an unknown kind
    [[first, second].concat(), page(is_big, 1 << 27, 1 << 31, &other.1, b"")]
}

fn header_info(is_big: bool) -> Vec<u8> {
    let mut part = Bytes(is_big, Vec::new());
    let page = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                 \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                 \tfield: char data;\toffset:16;\tsize:240;\tsigned:0;\n";
    part.text(b"header_page\0").number(page.len() as u64, 8).text(page);
    part.text(b"header_event\0").number(2, 8).text(b"#\n");
    part.1
}

fn systems(is_big: bool) -> Vec<u8> {
    let mut part = Bytes(is_big, Vec::new());
    part.number(FORMATS.len() as u64, 4);
    for (system, text) in FORMATS {
        part.text(system.as_bytes()).text(b"\0").number(1, 4);
        part.number(text.len() as u64, 8).text(text.as_bytes());
    }
    part.1
}

fn comms(is_big: bool) -> Vec<u8> {
    let mut part = Bytes(is_big, Vec::new());
    let text = b"40 cat\n41 a b\n";
    part.number(text.len() as u64, 8).text(text);
    part.1
}

fn begin(version: &[u8], is_big: bool) -> Bytes {
    let mut file = Bytes(is_big, Vec::new());
    file.text(super::contents::MAGIC)
        .text(version)
        .text(&[0, u8::from(is_big), 8])
        .number(PAGE as u64, 4);
    file
}

/// A file of version 6.
pub(crate) fn v6(is_big: bool) -> Vec<u8> {
    let mut file = begin(b"6", is_big);
    file.text(&header_info(is_big)).number(0, 4).text(&systems(is_big));
    file.number(3, 4).text(b"abc").number(0, 4).text(&comms(is_big)).number(2, 4);
    file.text(b"options  \0").number(4, 2).number(9, 4).text(b"[local] x").number(0, 2);
    let [first, second] = pages(is_big);
    let start = file.1.len() + 10 + 32;
    file.text(b"flyrecord\0").number(start as u64, 8).number(first.len() as u64, 8);
    file.number((start + first.len()) as u64, 8).number(second.len() as u64, 8);
    file.text(&first).text(&second);
    file.1
}

/// A file of version 7, compressed or not.
pub(crate) fn v7(is_big: bool, is_packed: bool) -> Vec<u8> {
    let mut file = begin(b"7", is_big);
    file.text(if is_packed { b"zstd\x001.5\0" } else { b"none\0\0" });
    let place = file.1.len();
    file.number(0, 8);
    let section = |file: &mut Bytes, id: u64, content: &[u8]| {
        let at = file.1.len() as u64;
        let packed = zstd::bulk::compress(content, 3).unwrap();
        file.number(id, 2).number(u64::from(is_packed), 2).number(0, 4);
        if is_packed {
            file.number(packed.len() as u64 + 8, 8);
            file.number(packed.len() as u64, 4).number(content.len() as u64, 4).text(&packed);
        } else {
            file.number(content.len() as u64, 8).text(content);
        }
        at
    };
    let sections = [
        (16, section(&mut file, 16, &header_info(is_big))),
        (18, section(&mut file, 18, &systems(is_big))),
        (21, section(&mut file, 21, &comms(is_big))),
    ];
    let buffer = file.1.len() as u64;
    file.number(3, 2).number(u64::from(is_packed), 2).number(0, 4).number(0, 8);
    let mut parts = Vec::new();
    for pages in pages(is_big) {
        let at = file.1.len() as u64;
        if is_packed {
            file.number((pages.len() / PAGE) as u64, 4);
            for page in pages.chunks(PAGE) {
                let packed = zstd::bulk::compress(page, 3).unwrap();
                file.number(packed.len() as u64, 4).number(PAGE as u64, 4).text(&packed);
            }
        } else {
            file.text(&pages);
        }
        // As trace-cmd does, without the number of chunks.
        let count_bytes = if is_packed { 4 } else { 0 };
        parts.push((at, file.1.len() as u64 - at - count_bytes));
    }
    let mut option = Bytes(is_big, Vec::new());
    option.number(buffer, 8).text(b"\0local\0").number(PAGE as u64, 4).number(2, 4);
    for (cpu, (at, length)) in parts.into_iter().enumerate() {
        option.number(cpu as u64, 4).number(at, 8).number(length, 8);
    }
    let mut options = Bytes(is_big, Vec::new());
    for (id, at) in sections {
        options.number(id, 2).number(8, 4).number(at, 8);
    }
    options.number(3, 2).number(option.1.len() as u64, 4).text(&option.1);
    options.number(0, 2).number(8, 4).number(0, 8);
    let at = section(&mut file, 0, &options.1);
    let mut number = Bytes(is_big, Vec::new());
    number.number(at, 8);
    file.1[place..place + 8].copy_from_slice(&number.1);
    file.1
}

/// Every variant, by the name of its seed.
pub(crate) fn all() -> [(&'static str, Vec<u8>); 6] {
    [
        ("small", v6(false)),
        ("big", v6(true)),
        ("plain7", v7(false, false)),
        ("plain7big", v7(true, false)),
        ("packed7", v7(false, true)),
        ("packed7big", v7(true, true)),
    ]
}

#[test]
fn numbers_are_written_in_both_orders() {
    let mut bytes = Bytes(true, Vec::new());
    bytes.number(0x0102, 2);
    assert_eq!(ByteOrder::Big.number(&bytes.1), 0x0102);
}
