use super::*;
use crate::system::Kind;
use crate::tracedat::sample;

#[test]
fn events_are_decoded_and_counted_under_the_names_of_the_kernel() {
    for (name, bytes) in sample::all() {
        let mut reader = open(Input::from_bytes("sample", bytes).unwrap()).unwrap();
        let (mut events, mut tally) = (Vec::new(), Tally::default());
        while reader.read(&mut events, &mut tally).unwrap() {}
        assert!(!reader.read(&mut events, &mut tally).unwrap());
        let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
        assert!(
            matches!(
                kinds[..],
                [
                    Kind::OomVictim { pid: 40 },
                    Kind::Block(first),
                    Kind::PageAdded { device: 0x80_0000, inode: 99, page: 3, order: 0 },
                    Kind::Block(second),
                ] if (first.sector, second.sector, first.device) == (80, 88, 0x80_0001)
            ),
            "{name}: {kinds:?}"
        );
        assert_eq!((events[1].tid, events[1].cpu), (40, Some(0)));
        assert_eq!(tally.events()["block_rq_issue"], 2);
        let losses: Vec<u64> = tally.losses().map(|(_, count)| count).collect();
        assert_eq!(losses, [1, 3, 1], "{name}");
    }
}
