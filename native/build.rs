//! Leaves out of the library what zstd has for dictionaries: no Kafka batch is compressed with one.
//!
//! zstd's table of match finders names those for dictionaries beside the others, so they would all be linked: a sixth of
//! the library. The linker puts `parley_finds_no_match` (src/unused.rs) in their places and drops them.
//! Only linkers for ELF can; elsewhere the library is larger and does the same.

const STRATEGIES: [&str; 8] = ["fast", "doubleFast", "greedy", "lazy", "lazy2", "btlazy2", "btopt", "btultra"];
const WITH_ROWS: [&str; 3] = ["greedy", "lazy", "lazy2"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    for strategy in STRATEGIES {
        for mode in ["dictMatchState", "extDict"] {
            leave_out(strategy, mode);
        }
    }
    for strategy in WITH_ROWS {
        for mode in ["dictMatchState_row", "extDict_row", "dedicatedDictSearch", "dedicatedDictSearch_row"] {
            leave_out(strategy, mode);
        }
    }
}

fn leave_out(strategy: &str, mode: &str) {
    let finder = format!("ZSTD_compressBlock_{strategy}_{mode}");
    println!("cargo:rustc-link-arg-cdylib=-Wl,--defsym={finder}=parley_finds_no_match");
}
