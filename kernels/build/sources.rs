//! What the two builds of the device kernels have in common: the files, and the headers that are generated from the lists that
//! the Rust side uses, so that both sides always agree.

use std::fs;
use std::path::Path;

/// The kernels: files `cuda/NAME.cu`.
pub const KERNELS: [&str; 7] =
    ["accumulate", "append", "attend_decode", "attend_prefill", "evict", "measure", "predict"];

/// Writes row_types.h and calls.h into a folder.
pub fn write_headers(folder: &Path) {
    for (name, text) in [("row_types.h", row_types()), ("calls.h", calls())] {
        fs::write(folder.join(name), text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// `ROW_TYPES(X)`: X(name, elements of a block, bytes of a block) for every row type, and their numbers.
macro_rules! row_types {
    ($($(#[$doc:meta])* $ty:ident: $name:literal, $elements:literal, $bytes:literal;)*) => {
        fn row_types() -> String {
            let types = [$((stringify!($ty), $elements, $bytes)),*];
            let entry = |(ty, elements, bytes): &(&str, usize, usize)| format!(" X({ty}, {elements}, {bytes})");
            let names: Vec<&str> = types.iter().map(|(name, ..)| *name).collect();
            format!(
                "// Generated from src/quant/types.rs.\n#pragma once\n#include <cstdint>\n\n\
                 enum RowType : int32_t {{ {} }};\n#define ROW_TYPES(X){}\n",
                names.join(", "),
                types.iter().map(entry).collect::<String>()
            )
        }
    };
}
include!("../src/quant/types.rs");

macro_rules! device_calls {
    (
        constants { $($(#[$constant_doc:meta])* $constant:ident = $value:literal;)* }
        $($(#[$doc:meta])* struct $call:ident {
            $($(#[$field_doc:meta])* $field:ident: $ty:ty,)*
        })*
    ) => {
        fn calls() -> String {
            let mut text = "// Generated from src/device/calls.rs.\n#pragma once\n#include <cstdint>\n".to_owned();
            $(text += &format!("constexpr int {} = {};\n", stringify!($constant), $value);)*
            $(
                text += &format!("\nstruct {} {{\n", stringify!($call));
                $(text += &format!("    {};\n", declaration(stringify!($ty), stringify!($field)));)*
                text += "};\n";
            )*
            text
        }
    };
}
include!("../src/device/calls.rs");

/// A C++ field of a Rust type.
fn declaration(ty: &str, field: &str) -> String {
    if let Some(ty) = ty.strip_prefix("*const ") {
        format!("const {}* {field}", scalar(ty))
    } else if let Some(ty) = ty.strip_prefix("*mut ") {
        format!("{}* {field}", scalar(ty))
    } else if let Some((ty, length)) = ty.trim_matches(['[', ']']).split_once("; ") {
        format!("{} {field}[{length}]", scalar(ty))
    } else {
        format!("{} {field}", scalar(ty))
    }
}

fn scalar(ty: &str) -> &str {
    match ty {
        "f32" => "float",
        "i32" => "int32_t",
        "u64" => "uint64_t",
        "u8" => "uint8_t",
        call => call,
    }
}
