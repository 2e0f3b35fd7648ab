//! Every result as it leaves: the fields of `pagewise X --json`, of the dictionaries that Python gets, and
//! of the schemas, types and tables that are written from here (tools/schemas.py).

use std::collections::BTreeMap;
use std::path::Path;

use policy::OptionRow;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema, json_schema};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sim::analysis::{self, SwapTraffic};
use sim::devices::Device;
use sim::misses::MissCounts;
use sim::swap::{self, Outcome, Ranges, TierCounts, Wear};
use trace::references::CaptureReport;
use trace::{Loss, Reject, TraceKind};

/// The name and version of a layout, as results carry it.
type Layout = &'static str;

/// How a recording accesses its pages. Shares are fractions, distributions lists of [largest value, count].
#[derive(Serialize, JsonSchema)]
pub struct Analysis {
    /// Everything that one reading of the recording tells.
    #[serde(flatten)]
    pub analysis: analysis::Analysis,
    /// What the recording lost.
    pub losses: Vec<Loss>,
    /// The path of the recording.
    pub trace: String,
    /// Figures of the recorded pages of 4 KiB; absent unless larger pages were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_4_kib: Option<AnalyzedAt4KiB>,
}

/// What an analysis says of the recorded pages beside larger ones.
#[derive(Serialize, JsonSchema)]
pub struct AnalyzedAt4KiB {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Accesses to all pages.
    pub accesses: u64,
    /// Distinct pages accessed.
    pub pages: u64,
    /// Writes among the accesses.
    pub writes: u64,
    /// Pages out and in; null unless it is a swap trace.
    pub swap: Option<SwapTraffic>,
}

impl From<analysis::Analysis> for AnalyzedAt4KiB {
    fn from(analysis: analysis::Analysis) -> AnalyzedAt4KiB {
        let analysis::Analysis { page_bytes, accesses, pages, writes, swap, .. } = analysis;
        AnalyzedAt4KiB { page_bytes, accesses, pages, writes, swap }
    }
}

/// Exact misses of eviction policies in memories of given sizes.
#[derive(Serialize, JsonSchema)]
pub struct Misses {
    /// The counts.
    #[serde(flatten)]
    pub counts: MissCounts,
    /// What the accesses are: of swapped pages, of blocks of a disk, or of objects of a cache.
    pub kind: TraceKind,
    /// What the recording lost.
    pub losses: Vec<Loss>,
    /// The path of the recording.
    pub trace: String,
}

/// What one swap architecture costs on a recording.
#[derive(Serialize, JsonSchema)]
pub struct Simulate {
    /// The replay.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What the recording lost.
    pub losses: Vec<Loss>,
    /// The path of the recording.
    pub trace: String,
    /// Version of pagewise.
    pub pagewise: &'static str,
    /// Hash of the sources that pagewise was built from.
    pub build: &'static str,
    /// The result for the recorded pages of 4 KiB; absent unless larger pages were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_4_kib: Option<SimulatedAt4KiB>,
    /// sha256 of the recording; null if it cannot be read twice, absent outside `--json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_sha256: Option<String>,
}

/// The decisions of a recorded `pagewise-agent swapd`, made again.
#[derive(Serialize, JsonSchema)]
pub struct AsRecorded {
    /// Name and version of this layout.
    pub schema: Layout,
    /// The path of the recording.
    pub recording: String,
    /// Whether the server and the replay moved the same pages.
    pub identical: bool,
    /// The replay.
    #[serde(flatten)]
    pub outcome: swap::AsRecorded,
}

/// What a replay says of the recorded pages beside larger ones.
#[derive(Serialize, JsonSchema)]
pub struct SimulatedAt4KiB {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Operations of the fast tier.
    pub fast: TierCounts,
    /// Operations of the slow tier.
    pub slow: TierCounts,
    /// Counts times latencies over both devices.
    #[schemars(range(min = 0))]
    pub io_time_s: f64,
    /// The part between a swap-in and its completion.
    #[schemars(range(min = 0))]
    pub stall_time_s: f64,
    /// Times over the range of the devices' latencies; null if the counts depend on them and were not
    /// replayed over the range.
    pub ranges: Option<Ranges>,
    /// Wear of both devices.
    pub wear: Wear,
}

impl From<Outcome> for SimulatedAt4KiB {
    fn from(outcome: Outcome) -> SimulatedAt4KiB {
        let Outcome { page_bytes, fast, slow, io_time_s, stall_time_s, ranges, wear, .. } = outcome;
        SimulatedAt4KiB { page_bytes, fast, slow, io_time_s, stall_time_s, ranges, wear }
    }
}

/// One answer of `simulate_many`: an outcome, or else an error.
#[derive(Default, Serialize, JsonSchema)]
pub struct Simulated {
    /// What the request costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<Outcome>>,
    /// Why the request cannot be replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Which processes kill policies would have killed in a recording, when and why.
#[derive(Serialize, JsonSchema)]
pub struct ReplayKills {
    /// Name and version of this layout.
    pub schema: Layout,
    /// The path of the recording.
    pub recording: String,
    /// In a freeze every task was stalled for memory for at least this share of time.
    #[schemars(range(min = 0, max = 1))]
    pub freeze_share: f64,
    /// The shortest freeze, in seconds.
    #[schemars(range(min = 0))]
    pub freeze_s: f64,
    /// A decision is a false alarm if no freeze and no kill follows within this time, in seconds.
    #[schemars(range(min = 0))]
    pub window_s: f64,
    /// The replay.
    #[serde(flatten)]
    pub outcome: sim::kills::ReplayOutcome,
    /// The memory cgroup that was recorded; null for the whole machine.
    pub cgroup: Option<String>,
    /// The command that was recorded; empty if there was none.
    pub command: Vec<String>,
    /// `uname -r` of the recorded machine.
    pub kernel: String,
    /// Whether the end of the recording is missing.
    pub is_cut: bool,
}

/// The parts of a system trace that could not be read, or that count twice.
#[derive(Serialize, JsonSchema)]
pub struct TraceReading {
    /// What the trace lost.
    pub losses: Vec<Loss>,
    /// Packets of a Perfetto trace that the file has twice, as when a trace is joined with itself; what they say
    /// counts twice. Copies of the first 65,536 packets are found.
    pub repeated_packets: u64,
    /// Lines that could not be read.
    pub rejected: u64,
    /// The first of the unreadable lines.
    pub rejects: Vec<Reject>,
}

/// The launches of apps in a system trace. Times are seconds since the first event that the kernel recorded.
#[derive(Serialize, JsonSchema)]
pub struct TraceLaunches {
    /// Name and version of this layout.
    pub schema: Layout,
    /// The path of the trace.
    pub trace: String,
    /// What was read.
    #[serde(flatten)]
    pub about: sim::system::About,
    /// What reading it found.
    #[serde(flatten)]
    pub reading: TraceReading,
    /// The launches.
    #[serde(flatten)]
    pub launches: sim::system::Launches,
}

/// The kills in a system trace. Times are seconds since the first event that the kernel recorded.
#[derive(Serialize, JsonSchema)]
pub struct TraceKills {
    /// Name and version of this layout.
    pub schema: Layout,
    /// The path of the trace.
    pub trace: String,
    /// What was read.
    #[serde(flatten)]
    pub about: sim::system::About,
    /// What reading it found.
    #[serde(flatten)]
    pub reading: TraceReading,
    /// The kills.
    #[serde(flatten)]
    pub kills: sim::system::Kills,
}

/// The pressure on memory in a system trace. Times are seconds since the first event that the kernel recorded.
#[derive(Serialize, JsonSchema)]
pub struct TracePressure {
    /// Name and version of this layout.
    pub schema: Layout,
    /// The path of the trace.
    pub trace: String,
    /// What was read.
    #[serde(flatten)]
    pub about: sim::system::About,
    /// What reading it found.
    #[serde(flatten)]
    pub reading: TraceReading,
    /// The pressure.
    #[serde(flatten)]
    pub pressure: sim::system::PressureFound,
}

/// What a recording of allocations holds.
#[derive(Serialize, JsonSchema)]
pub struct Allocations {
    /// Name and version of this layout.
    pub schema: Layout,
    /// The counts.
    #[serde(flatten)]
    pub info: trace::allocations::Info,
}

impl From<trace::allocations::Info> for Allocations {
    fn from(info: trace::allocations::Info) -> Allocations {
        Allocations { schema: "pagewise.allocations/1", info }
    }
}

/// What a trace of memory references holds.
#[derive(Serialize, JsonSchema)]
pub struct References {
    /// Name and version of this layout.
    pub schema: Layout,
    /// The counts.
    #[serde(flatten)]
    pub info: trace::references::Info,
}

impl From<trace::references::Info> for References {
    fn from(info: trace::references::Info) -> References {
        References { schema: "pagewise.references/1", info }
    }
}

/// What the import of memory references did.
#[derive(Serialize, JsonSchema)]
pub struct ImportReferences {
    /// Name and version of this layout.
    pub schema: Layout,
    /// The counts.
    #[serde(flatten)]
    pub report: trace::references::ReferenceImportReport,
}

/// What a recording holds, by what it is a recording of.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Info {
    /// Accesses to pages, stalls and kills.
    Events(Box<trace::store::Info>),
    /// Blocks of a program.
    Allocations(Box<Allocations>),
    /// Memory references of a program.
    References(Box<References>),
}

/// The devices that `--fast`, `--slow` and `--storage` accept by name, quickest first.
#[derive(Serialize, JsonSchema)]
pub struct Devices {
    /// Name and version of this layout.
    pub schema: Layout,
    /// Times in nanoseconds for one page of 4 KiB.
    pub devices: Vec<Device>,
}

/// A row of a catalog.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CatalogRow")]
pub struct Row {
    /// The name that commands accept.
    pub name: &'static str,
    /// A description of the entry, in a line.
    pub summary: &'static str,
}

/// A policy of a catalog.
#[derive(Serialize, JsonSchema)]
pub struct PolicyRow {
    /// The name that commands accept.
    pub name: &'static str,
    /// A description of the policy, in a line.
    pub summary: &'static str,
    /// What can be set.
    pub options: Vec<PolicyOption>,
}

/// An option of a policy.
#[derive(Serialize, JsonSchema)]
pub struct PolicyOption {
    /// The name of the option in settings.
    pub name: &'static str,
    /// The value of the option unless it is set.
    pub default: &'static str,
    /// The meaning of the option, with its unit.
    pub summary: &'static str,
}

impl From<&OptionRow> for PolicyOption {
    fn from(row: &OptionRow) -> PolicyOption {
        PolicyOption { name: row.name, default: row.default, summary: row.summary }
    }
}

/// An architecture of the catalog.
#[derive(Serialize, JsonSchema)]
pub struct ArchitectureRow {
    /// The name of the architecture in the catalog.
    name: &'static str,
    /// A description of the architecture, in a line.
    summary: &'static str,
    /// The role of the architecture in comparisons: `baseline`, `system` or `bound`.
    role: &'static str,
    /// Whether the decisions of the architecture depend on the latencies of the devices.
    decides_by_latency: bool,
    /// What can be set.
    options: Vec<ArchitectureOption>,
    /// Names of its profiles, which set several options at once.
    profiles: Vec<&'static str>,
}

/// An option of an architecture.
#[derive(Serialize, JsonSchema)]
struct ArchitectureOption {
    /// The name of the option in settings.
    name: &'static str,
    /// The value of the option unless it is set.
    default: &'static str,
    /// What the option decides.
    meaning: &'static str,
    /// The values of the option in words.
    values: String,
    /// The values that are words.
    words: Vec<&'static str>,
    /// Whether the option also takes a number.
    takes_number: bool,
}

impl From<&swap::Architecture> for ArchitectureRow {
    fn from(row: &swap::Architecture) -> ArchitectureRow {
        let option = |option: &swap::OptionSpec| ArchitectureOption {
            name: option.name,
            default: option.default,
            meaning: option.meaning,
            values: option.values.describe(),
            words: option.values.words(),
            takes_number: matches!(option.values, swap::Values::WordOrNumber(..)),
        };
        ArchitectureRow {
            name: row.name,
            summary: row.summary,
            role: row.role.name(),
            decides_by_latency: row.decides_by_latency,
            options: row.options.iter().map(option).collect(),
            profiles: row.profiles.iter().map(|profile| profile.name).collect(),
        }
    }
}

/// A policy with every option.
#[derive(Serialize, JsonSchema)]
pub struct DescribedPolicy {
    /// The name of the policy in the catalog.
    pub policy: &'static str,
    /// The name of the policy with the options that were set.
    pub label: String,
    /// Every option with the value in effect.
    pub options: BTreeMap<&'static str, String>,
    /// Whether the policy looks ahead in the recording.
    pub knows_the_future: bool,
}

/// A request for a replay with every default filled in.
#[derive(Serialize, JsonSchema)]
pub struct DescribedRequest {
    /// The architecture's name in the catalog.
    pub architecture: String,
    /// The profile that was asked for.
    pub profile: Option<String>,
    /// Every option with the value in effect.
    pub options: BTreeMap<&'static str, String>,
    /// Bytes of the fast tier.
    pub fast_tier_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// The fast device.
    pub fast: Device,
    /// The slow device.
    pub slow: Device,
    /// How readahead is treated.
    pub readahead: &'static str,
    /// How clean evictions, which leave no event, are treated.
    pub clean_evictions: &'static str,
    /// Yes if operations wait while the slow device is busy; otherwise absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queueing: Option<&'static str>,
    /// Whether an architecture that decides by latency is replayed over the range.
    pub ranges: &'static str,
}

/// What a trace holds, and what was counted beside the columns.
#[derive(Serialize, JsonSchema)]
pub struct CurveSummary {
    /// Processor architecture of a captured program, as QEMU names it.
    pub architecture: Option<String>,
    /// The references of the program.
    #[serde(flatten)]
    pub references: CountedReferences,
    /// References that missed a filter of 64 blocks, by kind.
    pub steps: NamedCounts,
    /// Counts by page size, in the order asked for.
    pub sizes: Vec<SizeCounts>,
    /// Memories with read-ahead, in the order asked for.
    pub read_aheads: Vec<ReadAheadRun>,
    /// Blocks of the filter of the trace.
    pub filter_blocks: usize,
    /// Minor faults by size of huge pages; null for a trace without mappings.
    pub minor_faults: Option<Vec<sim::refs::MinorFaults>>,
    /// References that missed the filter of the trace, by place in the trace and address.
    pub heat: sim::heat::AccessHeat,
}

/// Page faults of a program in limited memories.
#[derive(Serialize, JsonSchema)]
pub struct LimitedFaultCounts {
    /// Faults of each memory, in the order asked for; null for a trace without mappings.
    pub faults: Option<Vec<sim::refs::LimitedFaults>>,
}

/// References of a program by kind, and whether they are of the whole run.
#[derive(Serialize, JsonSchema)]
pub struct CountedReferences {
    /// Why there is less than the whole run; null if there is not.
    pub cut: Option<String>,
    /// Instructions fetched.
    pub instructions: u64,
    /// Data read.
    pub reads: u64,
    /// Data written, or modified by one instruction.
    pub writes: u64,
}

/// Counts by the name of the kind of reference.
pub type NamedCounts = BTreeMap<&'static str, u64>;

/// What was counted at one page size beside the columns.
#[derive(Serialize, JsonSchema)]
pub struct SizeCounts {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Distinct pages of the whole trace.
    pub pages: u64,
    /// First references to a page, by kind.
    pub cold: NamedCounts,
    /// Misses of each first TLB.
    pub first_tlb_misses: Vec<TlbCount>,
    /// Misses of each second TLB, by kind.
    pub second_tlb_misses: Vec<NamedCounts>,
    /// Page faults under policies other than LRU.
    pub policy_faults: Vec<PolicyFaultCount>,
}

/// Misses of a TLB.
#[derive(Serialize, JsonSchema)]
pub struct TlbCount {
    /// Misses by kind.
    pub misses: NamedCounts,
    /// Whether every miss was counted; otherwise the count is a lower bound.
    pub is_exact: bool,
}

/// Page faults of one memory under one policy.
#[derive(Serialize, JsonSchema)]
pub struct PolicyFaultCount {
    /// Name of the policy.
    pub policy: String,
    /// Frames of the memory.
    pub frames: u32,
    /// Page faults.
    pub faults: u64,
}

/// An LRU memory that reads a whole window of pages on a fault, and what it did.
#[derive(Serialize, JsonSchema)]
pub struct ReadAheadRun {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Frames of the memory.
    pub frames: u32,
    /// Pages of the window.
    pub window: u32,
    /// What the memory did.
    #[serde(flatten)]
    pub counts: sim::refs::ReadAheadCounts,
}

/// The path as results have it.
pub fn named(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The schema of every result that Rust defines, by the name and version of its layout.
pub fn schemas() -> Map<String, Value> {
    let mut schemas = Map::new();
    let mut add = |layout: Layout, schema: Schema| {
        schemas.insert(layout.to_owned(), with_layout(schema, layout));
    };
    add("pagewise.analyze/1", of::<Analysis>());
    add("pagewise.misses/1", of::<Misses>());
    add("pagewise.misses-of-traces/1", of_traces());
    add("pagewise.simulate/1", of::<Simulate>());
    add("pagewise.as-recorded/1", of::<AsRecorded>());
    add("pagewise.info/1", of::<trace::store::Info>());
    add("pagewise.allocations/1", of::<Allocations>());
    add("pagewise.references/1", of::<References>());
    add("pagewise.import/1", of::<trace::import::ImportReport>());
    add("pagewise.import-references/1", of::<ImportReferences>());
    add("pagewise.slice/1", of::<trace::Header>());
    add("pagewise.replay-kills/1", of::<ReplayKills>());
    add("pagewise.lifecycle/1", of::<sim::lifecycle::LifeOutcome>());
    add("pagewise.devices/1", of::<Devices>());
    add("pagewise.kills/1", of::<trace::kills::Report<'_>>());
    add("pagewise.launches/1", of::<TraceLaunches>());
    add("pagewise.trace-kills/1", of::<TraceKills>());
    add("pagewise.pressure/1", of::<TracePressure>());
    schemas
}

/// The schemas of objects that functions return beside results, as the definitions of one schema. They
/// have no layout: no command prints them.
pub fn parts() -> Value {
    let mut generator = generator();
    generator.subschema_for::<Simulated>();
    generator.subschema_for::<sim::zram::ZramCounts>();
    generator.subschema_for::<sim::alloc::AllocatorOutcome>();
    generator.subschema_for::<CaptureReport>();
    generator.subschema_for::<CurveSummary>();
    generator.subschema_for::<LimitedFaultCounts>();
    // The results of `curves` have these too.
    generator.subschema_for::<CountedReferences>();
    generator.subschema_for::<sim::refs::ReadAheadCounts>();
    generator.subschema_for::<sim::refs::MinorFaults>();
    generator.subschema_for::<Row>();
    generator.subschema_for::<PolicyRow>();
    generator.subschema_for::<ArchitectureRow>();
    generator.subschema_for::<DescribedPolicy>();
    generator.subschema_for::<DescribedRequest>();
    json!({ "title": "Parts", "$defs": generator.definitions() })
}

/// The schema of what serde writes of a `T`.
fn of<T: JsonSchema>() -> Schema {
    generator().into_root_schema_for::<T>()
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().for_serialize().into_generator()
}

/// The schema of the misses on several recordings.
fn of_traces() -> Schema {
    let mut generator = generator();
    let traces = generator.subschema_for::<Vec<Misses>>();
    json_schema!({
        "title": "MissesOfTraces",
        "description": "Exact misses of eviction policies on several recordings.",
        "type": "object",
        "properties": {
            "schema": { "type": "string", "description": "Name and version of this layout." },
            "traces": { "description": "The misses on each recording.", "type": "array", "items": traces.get("items") },
        },
        "required": ["schema", "traces"],
        "$defs": generator.definitions(),
    })
}

/// The schema under the name of its layout, which results that carry a name repeat.
fn with_layout(mut schema: Schema, layout: Layout) -> Value {
    schema.insert("$id".to_owned(), json!(layout));
    let mut value = Value::from(schema);
    if let Some(carried) = value.pointer_mut("/properties/schema")
        && carried["type"] == "string"
    {
        carried["const"] = json!(layout);
    }
    value
}
