//! The result of `pages`: of each process and of all, as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};

use linux::zsmalloc::SizeClasses;

use super::codec::Source;
use super::kernel::KernelZram;
use super::mean::{Estimate, weighted};
use super::subject::{STEPS, Subject};

/// An algorithm on the pages of a process that are not same-filled.
#[derive(Clone, Debug)]
pub struct AlgorithmPages {
    /// Compressed bytes of a page.
    pub bytes: Option<Estimate>,
    /// Bytes of a page in zram's pool.
    pub pool_bytes: Option<Estimate>,
    /// The share of pages that zram stores as they are.
    pub incompressible: Option<Estimate>,
    /// CPU time to compress a page, in microseconds.
    pub compress_us: Option<Estimate>,
    /// CPU time to decompress a page, in microseconds.
    pub decompress_us: Option<Estimate>,
    /// Shares of pages by compressed size, in steps of a 64th of a page.
    pub steps: Vec<f64>,
    /// Shares of pages by the number of their class in the pool.
    pub classes: Vec<f64>,
    /// What compressed the pages.
    pub source: Source,
}

/// An algorithm on the idle pages of a process that are not same-filled.
#[derive(Clone, Debug)]
pub struct IdleAlgorithm {
    /// Compressed bytes of a page.
    pub bytes: Option<Estimate>,
    /// Bytes of a page in zram's pool.
    pub pool_bytes: Option<Estimate>,
    /// The share of pages that zram stores as they are.
    pub incompressible: Option<Estimate>,
}

/// The pages that no process accessed for a while, of a process or of all.
#[derive(Clone, Debug)]
pub struct IdlePages {
    /// Share of all anonymous pages in memory.
    pub share: Estimate,
    /// Sampled pages that were idle.
    pub sampled: u64,
    /// The share of idle pages whose words are all equal.
    pub same: Option<Estimate>,
    /// Each algorithm by its name, in the order of the user.
    pub algorithms: Vec<(String, IdleAlgorithm)>,
}

/// The anonymous pages of a process, or of all.
#[derive(Clone, Debug)]
pub struct ProcessPages {
    /// The PID.
    pub pid: u32,
    /// The command name.
    pub name: String,
    /// Anonymous pages in memory.
    pub resident: u64,
    /// Anonymous pages in swap, which are not sampled.
    pub swapped: u64,
    /// Pages that were read.
    pub sampled: u64,
    /// Drawn pages that went to swap before they were read.
    pub swapped_meanwhile: u64,
    /// Drawn pages that were gone, or are memory of a device.
    pub unreadable: u64,
    /// Whether all drawn pages were tried.
    pub is_complete: bool,
    /// The share of pages whose words are all equal.
    pub same: Option<Estimate>,
    /// The idle pages, if `--idle` asked for them.
    pub idle: Option<IdlePages>,
    /// Each algorithm by its name, in the order of the user.
    pub algorithms: Vec<(String, AlgorithmPages)>,
}

/// How idle pages were found.
#[derive(Clone, Debug)]
pub enum Idle {
    /// No process accessed an idle page for this long.
    For(Duration),
    /// The reason for which no page counts as idle.
    Unknown(String),
}

/// A process that was not sampled, and why.
#[derive(Clone, Debug)]
pub struct NotSampled {
    /// The PID.
    pub pid: u32,
    /// The command name.
    pub name: String,
    /// The reason.
    pub why: String,
    /// Whether this program lacks the right to read the process.
    pub is_refused: bool,
}

impl NotSampled {
    /// A process that was left out, such as for the lack of time.
    pub fn left_out(subject: &Subject, why: &str) -> NotSampled {
        let Subject { pid, name, .. } = subject.clone();
        NotSampled { pid, name, why: why.to_owned(), is_refused: false }
    }

    /// A process of which `what` failed with this error of the operating system.
    pub fn failed(subject: &Subject, what: &str, error: &std::io::Error) -> NotSampled {
        let is_refused = error.kind() == std::io::ErrorKind::PermissionDenied;
        NotSampled { is_refused, ..NotSampled::left_out(subject, &format!("{what}: {error}")) }
    }
}

impl fmt::Display for NotSampled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "process {} ({}): {}", self.pid, self.name.escape_debug(), self.why)
    }
}

/// The pool that the figures count for.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'a> {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// The classes of the pool.
    pub classes: &'a SizeClasses,
}

/// Everything that was sampled.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// The processes that were sampled, the largest first.
    pub processes: Vec<ProcessPages>,
    /// The processes that were not.
    pub absent: Vec<NotSampled>,
}

/// What the sample cost, and how it was drawn.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The kernel's release.
    pub kernel: &'a str,
    /// Bytes of memory of the machine.
    pub memory_bytes: u64,
    /// The pool.
    pub pool: Pool<'a>,
    /// The seed.
    pub seed: u64,
    /// Seconds of CPU time that this program took.
    pub cpu_s: f64,
    /// How idle pages were found.
    pub idle: &'a Idle,
    /// The kernel's zram.
    pub zram: &'a KernelZram,
}

impl ProcessPages {
    /// Anonymous pages in memory that can be read, as the sample shows.
    fn readable(&self) -> f64 {
        let tried = (self.sampled + self.swapped_meanwhile + self.unreadable).max(1) as f64;
        self.resident as f64 * (1.0 - self.unreadable as f64 / tried)
    }

    /// The pages that would take memory in zram.
    fn stored(&self) -> f64 {
        self.readable() * (1.0 - self.same.map_or(0.0, |same| same.mean))
    }

    /// The bytes of zram's pool that all its anonymous pages in memory would take with an algorithm.
    pub fn pool_bytes(&self, algorithm: &AlgorithmPages, classes: &SizeClasses) -> Option<f64> {
        Some(self.stored() * algorithm.pool_bytes?.mean + self.free_bytes(algorithm, classes))
    }

    /// The part of these bytes that is free, in zspages that are not full.
    fn free_bytes(&self, algorithm: &AlgorithmPages, classes: &SizeClasses) -> f64 {
        classes.free_bytes(&algorithm.classes, self.stored())
    }

    fn json(&self, pool: Pool<'_>) -> Value {
        let mut found = json!({
            "pid": self.pid, "name": self.name,
            "pages_resident": self.resident, "pages_swapped": self.swapped,
            "pages_sampled": self.sampled,
            "pages_swapped_meanwhile": self.swapped_meanwhile,
            "pages_unreadable": self.unreadable,
            "is_complete": self.is_complete,
        });
        if let Value::Object(fields) = &mut found {
            put(fields, "same_filled_share", self.same);
            let algorithms = self.algorithms.iter();
            let algorithms: Map<String, Value> = algorithms
                .map(|(name, pages)| (name.clone(), self.algorithm_json(pages, pool)))
                .collect();
            fields.insert("algorithms".to_owned(), Value::Object(algorithms));
            fields.insert("idle".to_owned(), self.idle.as_ref().map(IdlePages::json).into());
        }
        found
    }

    /// The pages that would take memory in zram, of those that are idle.
    fn idle_stored(&self, idle: &IdlePages) -> f64 {
        self.readable() * idle.share.mean * (1.0 - idle.same.map_or(0.0, |same| same.mean))
    }

    fn algorithm_json(&self, algorithm: &AlgorithmPages, pool: Pool<'_>) -> Value {
        let mut fields = Map::new();
        fields.insert("measured_by".to_owned(), algorithm.source.name().into());
        put(&mut fields, "bytes_per_page", algorithm.bytes);
        put(&mut fields, "pool_bytes_per_page", algorithm.pool_bytes);
        let pool_bytes = self.pool_bytes(algorithm, pool.classes);
        let free = pool_bytes.map(|_| self.free_bytes(algorithm, pool.classes));
        fields.insert("pool_bytes".to_owned(), pool_bytes.into());
        fields.insert("pool_bytes_free".to_owned(), free.into());
        put(&mut fields, "incompressible_share", algorithm.incompressible);
        put(&mut fields, "us_compress", algorithm.compress_us);
        put(&mut fields, "us_decompress", algorithm.decompress_us);
        fields.insert("size_step_bytes".to_owned(), (pool.page_bytes / STEPS as u64).into());
        fields.insert("size_shares".to_owned(), algorithm.steps.clone().into());
        Value::Object(fields)
    }
}

impl IdlePages {
    fn json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("pages_sampled".to_owned(), self.sampled.into());
        put(&mut fields, "share", Some(self.share));
        put(&mut fields, "same_filled_share", self.same);
        let algorithm = |(name, sizes): &(String, IdleAlgorithm)| {
            let mut fields = Map::new();
            put(&mut fields, "bytes_per_page", sizes.bytes);
            put(&mut fields, "pool_bytes_per_page", sizes.pool_bytes);
            put(&mut fields, "incompressible_share", sizes.incompressible);
            (name.clone(), Value::Object(fields))
        };
        let algorithms: Map<String, Value> = self.algorithms.iter().map(algorithm).collect();
        fields.insert("algorithms".to_owned(), Value::Object(algorithms));
        Value::Object(fields)
    }
}

fn put(fields: &mut Map<String, Value>, name: &str, estimate: Option<Estimate>) {
    fields.insert(name.to_owned(), estimate.map(|estimate| estimate.mean).into());
    let error = estimate.and_then(|estimate| estimate.error);
    fields.insert(format!("{name}_error"), error.into());
}

impl Report<'_> {
    /// The result as JSON.
    pub fn json(&self, sampled: &Sampled) -> Value {
        let page_bytes = self.pool.page_bytes;
        let absent = sampled.absent.iter();
        let absent: Vec<Value> = absent
            .map(|each| json!({ "pid": each.pid, "name": each.name, "why": each.why }))
            .collect();
        let processes = sampled.processes.iter();
        let all = total(&sampled.processes);
        let idle = match self.idle {
            Idle::For(time) => json!({
                "pages": all.idle.as_ref().map(|idle| all.readable() * idle.share.mean),
                "seconds": time.as_secs_f64(),
                "why": null,
            }),
            Idle::Unknown(why) => json!({ "pages": null, "seconds": null, "why": why }),
        };
        let mut all = all.json(self.pool);
        if let Value::Object(fields) = &mut all {
            fields.shift_remove("pid");
            fields.shift_remove("name");
        }
        json!({
            "schema": "pagewise.pages/1",
            "kernel": self.kernel,
            "memory_bytes": self.memory_bytes,
            "page_bytes": page_bytes,
            "seed": self.seed,
            "cpu_s": self.cpu_s,
            "bytes_read": all["pages_sampled"].as_u64().unwrap_or(0) * page_bytes,
            "zsmalloc": { "chain_size": self.pool.classes.chain_size(), "huge_bytes": self.pool.classes.huge_bytes() },
            "zram": self.zram,
            "idle": idle,
            "total": all,
            "processes": processes.map(|each| each.json(self.pool)).collect::<Vec<_>>(),
            "not_sampled": absent,
        })
    }
}

/// All processes together: each counts by its pages. A page that processes share after a fork counts for each of them.
pub fn total(processes: &[ProcessPages]) -> ProcessPages {
    let sum = |of: fn(&ProcessPages) -> u64| processes.iter().map(of).sum::<u64>();
    let same = weighted(processes.iter().filter_map(|each| Some((each.readable(), each.same?))));
    ProcessPages {
        pid: 0,
        name: "all".to_owned(),
        resident: sum(|each| each.resident),
        swapped: sum(|each| each.swapped),
        sampled: sum(|each| each.sampled),
        swapped_meanwhile: sum(|each| each.swapped_meanwhile),
        unreadable: sum(|each| each.unreadable),
        is_complete: processes.iter().all(|each| each.is_complete),
        same,
        idle: idle(processes),
        algorithms: algorithms(processes),
    }
}

/// The idle pages of all processes.
fn idle(processes: &[ProcessPages]) -> Option<IdlePages> {
    let parts: Vec<(&ProcessPages, &IdlePages)> =
        processes.iter().filter_map(|each| Some((each, each.idle.as_ref()?))).collect();
    let share = weighted(parts.iter().map(|(each, idle)| (each.readable(), idle.share)))?;
    let pages = |each: &ProcessPages, idle: &IdlePages| each.readable() * idle.share.mean;
    let same =
        weighted(parts.iter().filter_map(|(each, idle)| Some((pages(each, idle), idle.same?))));
    let together = |at: usize| {
        let mean = |field: fn(&IdleAlgorithm) -> Option<Estimate>| {
            weighted(parts.iter().filter_map(|(each, idle)| {
                Some((each.idle_stored(idle), field(&idle.algorithms.get(at)?.1)?))
            }))
        };
        IdleAlgorithm {
            bytes: mean(|sizes| sizes.bytes),
            pool_bytes: mean(|sizes| sizes.pool_bytes),
            incompressible: mean(|sizes| sizes.incompressible),
        }
    };
    // All processes are measured with the same algorithms.
    let names = parts[0].1.algorithms.iter().map(|(name, _)| name.clone());
    let algorithms = names.enumerate().map(|(at, name)| (name, together(at))).collect();
    let sampled = parts.iter().map(|(_, idle)| idle.sampled).sum();
    Some(IdlePages { share, sampled, same, algorithms })
}

fn algorithms(processes: &[ProcessPages]) -> Vec<(String, AlgorithmPages)> {
    let mut names: Vec<&String> = Vec::new();
    let mut of: BTreeMap<&String, Vec<(f64, &AlgorithmPages)>> = BTreeMap::new();
    for each in processes {
        for (name, pages) in &each.algorithms {
            let parts = of.entry(name).or_insert_with(|| {
                names.push(name);
                Vec::new()
            });
            parts.push((each.stored(), pages));
        }
    }
    let together = |name: &String| {
        let parts = &of[name];
        let mean = |field: fn(&AlgorithmPages) -> Option<Estimate>| {
            weighted(parts.iter().filter_map(|&(weight, pages)| Some((weight, field(pages)?))))
        };
        let weights: f64 = parts.iter().map(|(weight, _)| weight).sum();
        let shares = |field: fn(&AlgorithmPages) -> &[f64]| {
            let mut sums = vec![0.0; field(parts[0].1).len()];
            for (weight, pages) in parts.iter().filter(|(_, pages)| pages.bytes.is_some()) {
                let both = sums.iter_mut().zip(field(pages));
                both.for_each(|(sum, share)| *sum += share * weight / weights);
            }
            sums
        };
        let pages = AlgorithmPages {
            bytes: mean(|pages| pages.bytes),
            pool_bytes: mean(|pages| pages.pool_bytes),
            incompressible: mean(|pages| pages.incompressible),
            compress_us: mean(|pages| pages.compress_us),
            decompress_us: mean(|pages| pages.decompress_us),
            steps: shares(|pages| &pages.steps),
            classes: shares(|pages| &pages.classes),
            source: parts[0].1.source,
        };
        (name.clone(), pages)
    };
    names.into_iter().map(together).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(resident: u64, same: f64, bytes: f64) -> ProcessPages {
        let estimate = |mean| Some(Estimate { mean, error: Some(1.0) });
        let mut steps = vec![0.0; STEPS];
        steps[bytes as usize / 64] = 1.0;
        let classes = SizeClasses::new(4096, 8, true);
        let mut shares = vec![0.0; classes.count()];
        shares[classes.number(bytes as usize)] = 1.0;
        let pages = AlgorithmPages {
            bytes: estimate(bytes),
            pool_bytes: estimate(bytes * 1.5),
            incompressible: estimate(0.0),
            compress_us: estimate(5.0),
            decompress_us: None,
            steps,
            classes: shares,
            source: Source::Library,
        };
        ProcessPages {
            pid: 7,
            name: "\") Z (".to_owned(),
            resident,
            swapped: 3,
            sampled: 10,
            swapped_meanwhile: 0,
            unreadable: 0,
            is_complete: true,
            same: estimate(same),
            idle: None,
            algorithms: vec![("lz4".to_owned(), pages)],
        }
    }

    #[test]
    fn a_total_counts_processes_by_the_pages_that_they_store() {
        let both = [process(400, 0.25, 1000.0), process(100, 0.0, 2000.0)];
        let all = total(&both);
        assert_eq!((all.resident, all.swapped, all.sampled), (500, 6, 20));
        assert!((all.same.unwrap().mean - 0.2).abs() < 1e-12);
        let (name, pages) = &all.algorithms[0];
        assert_eq!(name, "lz4");
        // 300 pages of 1000 bytes, and 100 of 2000.
        assert!((pages.bytes.unwrap().mean - 1250.0).abs() < 1e-9);
        assert!((pages.steps[15] - 0.75).abs() < 1e-12 && (pages.steps[31] - 0.25).abs() < 1e-12);
        let classes = SizeClasses::new(4096, 8, true);
        let pool = |each: &ProcessPages| each.pool_bytes(&each.algorithms[0].1, &classes).unwrap();
        assert!((pool(&all) - both.iter().map(pool).sum::<f64>()).abs() < 1e-6);
        // Full zspages, and those of both classes that are not full.
        assert!(pool(&all) > 300.0 * 1500.0 + 100.0 * 3000.0);
        assert!(total(&[]).algorithms.is_empty());
    }

    #[test]
    fn the_result_names_the_figures_that_others_read() {
        let classes = SizeClasses::new(4096, 8, true);
        let pool = Pool { page_bytes: 4096, classes: &classes };
        let report = Report {
            kernel: "6.18.0",
            memory_bytes: 1 << 30,
            pool,
            seed: 1,
            cpu_s: 0.1,
            idle: &Idle::Unknown("not asked for".to_owned()),
            zram: &KernelZram::default(),
        };
        let sampled = Sampled { processes: vec![process(400, 0.25, 1000.0)], absent: Vec::new() };
        let found = report.json(&sampled);
        assert_eq!(found["schema"], "pagewise.pages/1");
        for part in [&found["processes"][0], &found["total"]] {
            assert_eq!(part["pages_sampled"], 10);
            assert_eq!(part["same_filled_share"], 0.25);
            let lz4 = &part["algorithms"]["lz4"];
            assert_eq!(
                (&lz4["bytes_per_page"], &lz4["us_compress"]),
                (&1000.0.into(), &5.0.into())
            );
            assert_eq!(lz4["pool_bytes_per_page"], 1500.0);
            assert!(lz4["us_decompress"].is_null());
            assert_eq!(lz4["size_shares"].as_array().unwrap().len(), 64);
        }
        assert_eq!(found["bytes_read"], 10 * 4096);
        assert_eq!(found["idle"]["why"], "not asked for");
        assert!(found["total"]["idle"].is_null());
    }

    #[test]
    fn idle_pages_of_all_count_by_the_idle_pages_of_each() {
        let idle = |share, same, bytes| {
            let exact = |mean| Estimate { mean, error: Some(0.0) };
            let sizes = IdleAlgorithm {
                bytes: Some(exact(bytes)),
                pool_bytes: Some(exact(bytes)),
                incompressible: Some(exact(0.0)),
            };
            let algorithms = vec![("lz4".to_owned(), sizes)];
            Some(IdlePages { share: exact(share), sampled: 5, same: Some(exact(same)), algorithms })
        };
        // 200 idle pages, of which 50 take memory, and 100, which all do.
        let first = ProcessPages { idle: idle(0.5, 0.75, 1000.0), ..process(400, 0.0, 1000.0) };
        let second = ProcessPages { idle: idle(1.0, 0.0, 2500.0), ..process(100, 0.0, 2000.0) };
        let unknown = process(1000, 0.0, 64.0);
        let sampled = Sampled { processes: vec![first, second, unknown], absent: Vec::new() };
        let idle = total(&sampled.processes).idle.unwrap();
        assert!((idle.share.mean - 0.6).abs() < 1e-12);
        assert!((idle.same.unwrap().mean - 0.5).abs() < 1e-12);
        assert!((idle.algorithms[0].1.bytes.unwrap().mean - 2000.0).abs() < 1e-9);
        assert_eq!(idle.sampled, 10);
        let json = idle.json();
        assert_eq!(json["algorithms"]["lz4"]["bytes_per_page_error"], 0.0);
        assert!(total(&[process(5, 0.0, 64.0)]).idle.is_none());
    }
}
