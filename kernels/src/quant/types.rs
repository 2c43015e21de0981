// The row types: the one list for Rust and C++. src/quant/mod.rs makes `RowType` of it, build/sources.rs the
// header row_types.h.
//
// A line has the name that ggml and the command line use, the elements of a block (1: no blocks) and the
// bytes of a block.

row_types! {
    /// 32-bit floats.
    F32: "f32", 1, 4;
    /// IEEE half-precision floats, the default of the KV store.
    F16: "f16", 1, 2;
    /// ggml's `Q8_0`: an f16 scale, then 32 signed bytes.
    Q8_0: "q8_0", 32, 34;
    /// ggml's `Q4_0`: an f16 scale, then 16 bytes. Byte j holds element j in its low and element j + 16 in
    /// its high nibble, each + 8.
    Q4_0: "q4_0", 32, 18;
    /// ggml's `IQ4_NL`: an f16 scale, then 16 bytes with the codes of elements as in `Q4_0`. The value of a
    /// code is in a table of 16 numbers, which are closer to each other near zero.
    Iq4Nl: "iq4_nl", 32, 18;
}
