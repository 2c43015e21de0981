// ggml's code for CPUs is in the program once for each level of levels.rs. This chooses at each call, by what the CPU is.
//
// Each function is one line, which build/levels.rs reads: other functions of that code cannot be called from outside. In
// the code of a level their names end with that of the level.
#include "ggml-backend.h"
#include "ggml-cpu.h"

// LEVELS(X, ...): X(number, name, ...) for each level. Written by build/levels.rs.
#include "levels.h"

// The number of the level of this CPU. In Rust (src/lib.rs), which knows the features of CPUs on all systems.
int longhand_cpu_level(void);

#define DECLARATION(number, level, type, name, parameters, arguments) type name##_##level parameters;
#define CALL(number, level, type, name, parameters, arguments) \
    case number: return name##_##level arguments;

#define EACH(type, name, parameters, arguments)                 \
    LEVELS(DECLARATION, type, name, parameters, arguments)      \
    type name parameters {                                      \
        switch (longhand_cpu_level()) {                         \
            LEVELS(CALL, type, name, parameters, arguments)     \
        }                                                       \
        __builtin_unreachable();                                \
    }

EACH(ggml_backend_reg_t, ggml_backend_cpu_reg, (void), ())
EACH(ggml_backend_t, ggml_backend_cpu_init, (void), ())
EACH(void, ggml_backend_cpu_set_n_threads, (ggml_backend_t backend, int threads), (backend, threads))
EACH(void, ggml_backend_cpu_set_threadpool, (ggml_backend_t backend, ggml_threadpool_t pool), (backend, pool))
EACH(void, ggml_backend_cpu_set_abort_callback, (ggml_backend_t backend, ggml_abort_callback call, void * data), (backend, call, data))
EACH(struct ggml_threadpool *, ggml_threadpool_new, (struct ggml_threadpool_params * params), (params))
EACH(void, ggml_threadpool_free, (struct ggml_threadpool * pool), (pool))
EACH(const struct ggml_type_traits_cpu *, ggml_get_type_traits_cpu, (enum ggml_type type), (type))
EACH(int, ggml_cpu_has_avx, (void), ())
EACH(int, ggml_cpu_has_avx2, (void), ())
EACH(int, ggml_cpu_has_f16c, (void), ())
EACH(int, ggml_cpu_has_fma, (void), ())
EACH(int, ggml_cpu_has_bmi2, (void), ())
EACH(int, ggml_cpu_has_avx_vnni, (void), ())
EACH(int, ggml_cpu_has_avx512, (void), ())
EACH(int, ggml_cpu_has_avx512_vbmi, (void), ())
EACH(int, ggml_cpu_has_avx512_vnni, (void), ())
EACH(int, ggml_cpu_has_avx512_bf16, (void), ())
EACH(int, ggml_cpu_has_amx_int8, (void), ())
EACH(int, ggml_cpu_has_neon, (void), ())
EACH(int, ggml_cpu_has_dotprod, (void), ())
EACH(int, ggml_cpu_has_matmul_int8, (void), ())
EACH(int, ggml_cpu_has_sve, (void), ())
