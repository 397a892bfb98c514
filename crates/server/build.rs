//! Embeds the web UI again when `make web` has built it.

fn main() {
    let dist = "../../web/dist";
    // Cargo compiles the crate every time while a watched path is missing. Where it cannot be made, that is all.
    let _ = std::fs::create_dir_all(dist);
    println!("cargo::rerun-if-changed={dist}");
}
