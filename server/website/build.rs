//! Has the crate built again when the website changes, which the compiler cannot see by itself.

fn main() {
    println!("cargo::rerun-if-changed=../../web");
}
