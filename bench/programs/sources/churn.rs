//! Four threads with vectors that grow, strings, sorting and a channel; prints a checksum.
use std::sync::mpsc;
use std::thread;

fn work(seed: u32, sent: &mpsc::Sender<Vec<u8>>) -> u64 {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut draw = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let mut sum = 0_u64;
    for number in 0..60 {
        let mut grown: Vec<u32> = Vec::new();
        for at in 0..draw(2 << 20) / 4 + 1000 {
            grown.push(at.wrapping_mul(number + 1) % 10_007);
        }
        grown.sort_unstable();
        sum = sum.wrapping_mul(31).wrapping_add(u64::from(grown[grown.len() / 3]));
        let zeroed = vec![0_u8; draw(4 << 20) as usize + 1];
        assert!(zeroed.iter().step_by(1021).all(|&byte| byte == 0), "fresh memory is not zero");
        sent.send(zeroed).expect("the receiver waits");
        let text: String = (0..3000).map(|at| format!("{number}-{at} ")).collect();
        sum = sum.wrapping_add(text.len() as u64);
    }
    sum
}

fn main() {
    let (sender, receiver) = mpsc::channel::<Vec<u8>>();
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let sent = sender.clone();
            thread::spawn(move || work(seed, &sent))
        })
        .collect();
    drop(sender);
    let received: usize = receiver.iter().map(|block| block.len()).sum();
    let sums = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
    let all = sums.fold(received as u64, |all, own| all.wrapping_mul(1009).wrapping_add(own));
    println!("finished {all}");
}
