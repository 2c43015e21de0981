// Included before everything else in ggml's C files. ggml's threads wait for each other in loops that call
// ggml_thread_cpu_relax; this makes the loops of ggml-cpu.c call longhand_relax instead (relax.c says why).
//
// The macro takes apart `ggml_thread_cpu_relax(void)`, the definition, which keeps a name of its own, and
// `ggml_thread_cpu_relax()`, the calls. build/main.rs fails where ggml's source no longer has these.
#pragma once

void longhand_relax(void);

#define ggml_thread_cpu_relax(argument) LONGHAND_RELAX_##argument
#define LONGHAND_RELAX_void __attribute__((unused)) longhand_unused_relax(void)
#define LONGHAND_RELAX_ longhand_relax()
