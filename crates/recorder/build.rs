//! Compiles the BPF programs with clang and makes their typed access, where they are asked for.

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    #[cfg(feature = "bpf")]
    for name in ["recorder", "kills"] {
        skeleton(name);
    }
}

#[cfg(feature = "bpf")]
fn skeleton(name: &str) {
    let folder = std::path::PathBuf::from(
        std::env::var_os("OUT_DIR").expect("cargo names the folder for what is built"),
    );
    let built = libbpf_cargo::SkeletonBuilder::new()
        .source(format!("bpf/{name}.bpf.c"))
        // Version 3 has the compare-and-swap; Linux takes it since 5.12.
        .clang_args(["-Wall", "-Werror", "-mcpu=v3"])
        .build_and_generate(folder.join(format!("{name}.skel.rs")));
    if let Err(error) = built {
        panic!(
            "clang could not compile the BPF programs: {error:#}\n\
             Install clang, libelf-dev and zlib1g-dev, or build with --no-default-features."
        );
    }
}
