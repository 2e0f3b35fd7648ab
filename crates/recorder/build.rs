//! Compiles the BPF programs with clang and generates their skeletons, if the feature `bpf` is on.

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
    // The name of this folder does not belong into programs.
    let here = std::env::current_dir().expect("cargo runs this in the folder of the crate");
    let renamed = format!("-ffile-prefix-map={}=.", here.display());
    let built = libbpf_cargo::SkeletonBuilder::new()
        .source(format!("bpf/{name}.bpf.c"))
        // BPF CPU version 3 has compare-and-swap; Linux accepts it since 5.12.
        .clang_args(["-Wall", "-Werror", "-mcpu=v3", renamed.as_str()])
        .build_and_generate(folder.join(format!("{name}.skel.rs")));
    if let Err(error) = built {
        panic!(
            "clang cannot compile the BPF programs: {error:#}\n\
             Install clang, libelf-dev and zlib1g-dev, or build with --no-default-features."
        );
    }
}
