//! Waiting for a device, naively: a list of all operations, searched for the next arrival from end to end.

/// An operation of a process.
#[derive(Clone, Copy, Debug)]
pub struct Issued {
    /// Number of the process.
    pub process: u32,
    /// Time in the trace.
    pub time_ns: u64,
    /// Time that the operation takes.
    pub service_ns: u64,
    /// Whether the operation needs a unit of the device.
    pub needs_unit: bool,
    /// Whether the process waits for the end of the operation.
    pub stalls: bool,
}

/// The time that processes wait for a unit, of `units`. `issued` is in the order of the trace.
pub fn waited_ns(issued: &[Issued], units: usize) -> u128 {
    let mut left: Vec<Issued> = issued.to_vec();
    let processes = issued.iter().map(|each| each.process as usize + 1).max().unwrap_or(0);
    let mut delays = vec![0; processes];
    let mut free_at = vec![0; units];
    let mut waited_ns = 0;
    while !left.is_empty() {
        // The first operation left of each process, and the earliest of these.
        let firsts = (0..processes as u32)
            .filter_map(|process| left.iter().position(|each| each.process == process));
        let next = firsts
            .min_by_key(|&index| {
                let each: &Issued = &left[index];
                (each.time_ns + delays[each.process as usize], each.process)
            })
            .expect("an operation is left");
        let each = left.remove(next);
        let delay = &mut delays[each.process as usize];
        let arrival = each.time_ns + *delay;
        let mut start = arrival;
        if each.needs_unit {
            let unit = free_at.iter_mut().min().expect("a unit");
            start = start.max(*unit);
            *unit = start + each.service_ns;
        }
        if each.stalls {
            waited_ns += u128::from(start - arrival);
            *delay = start + each.service_ns - each.time_ns;
        }
    }
    waited_ns
}
