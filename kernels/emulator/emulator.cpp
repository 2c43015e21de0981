// The emulator's fibers, collectives, half-precision conversions and tensor core instructions (see emulator.h).
#include "emulator.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#if defined(__x86_64__)
#define OWN_SWITCH
#else
#include <ucontext.h>
#endif

namespace emulator {
namespace {

constexpr size_t STACK_BYTES = 64 * 1024;
constexpr unsigned MAX_THREADS = 1024;
constexpr unsigned char GUARD = 0xa5;
constexpr size_t GUARD_BYTES = 64;

#ifdef OWN_SWITCH
// The state of a fiber: its stack pointer. The registers that a function must preserve are on the stack.
using State = void*;

// The registers are those of Unix. On Windows whoever calls it saves the others that a function must preserve there.
extern "C" __attribute__((sysv_abi)) void longhand_switch(State* from, State* to);
asm(R"(
.text
.p2align 4
longhand_switch:
_longhand_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq (%rsi), %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

void switch_to(State& from, State& to) { longhand_switch(&from, &to); }

void prepare(State& state, unsigned char* stack, void (*entry)()) {
    void** top = reinterpret_cast<void**>(stack + STACK_BYTES);
    top -= 4;                                      // functions of Windows may write above their return address
    *--top = nullptr;                            // the return address of the entry; aligns the stack as after a call
    *--top = reinterpret_cast<void*>(entry);     // the return address of the first switch
    for (int i = 0; i < 6; i++) *--top = nullptr;  // the saved registers
    state = top;
}
#else
using State = ucontext_t;

void switch_to(State& from, State& to) { swapcontext(&from, &to); }

void prepare(State& state, unsigned char* stack, void (*entry)()) {
    getcontext(&state);
    state.uc_stack.ss_sp = stack;
    state.uc_stack.ss_size = STACK_BYTES;
    state.uc_link = nullptr;
    makecontext(&state, entry, 0);
}
#endif

struct Copy {
    void* to;
    const void* from;
    int bytes;
    int group;
};

struct Fiber {
    State state;
    std::unique_ptr<unsigned char[]> stack;
    // The collective it waits in; null where it can run.
    const char* waits;
    bool done;
    int group;
    std::vector<Copy> copies;
};

// The collectives of a warp or of the block.
struct Collective {
    const char* name;
    unsigned arrived;
    unsigned round;
    // Two sets: one is read while the other is written.
    Slot slots[2][32];
};

// The state of the emulator of a host thread, kept from launch to launch.
struct Machine {
    State host;
    std::vector<Fiber> fibers;
    std::vector<Collective> warps;
    Collective block;
    std::vector<uint4> shared;
    unsigned threads = 0;
    unsigned current = 0;
    unsigned unfinished = 0;
    bool reversed = false;
    std::map<const void*, unsigned> launches;
    void (*thread)(const void*);
    const void* argument;
};

// The machine of this thread, while it runs a kernel. A pointer, because a machine has a constructor, and each use of it would
// ask whether it has run: that took a fifth of the time.
thread_local Machine* machine = nullptr;

void report() {
    for (unsigned i = 0; i < machine->threads; i++) {
        const Fiber& fiber = machine->fibers[i];
        const char* where = fiber.done ? "has left the kernel" : fiber.waits ? fiber.waits : "can run";
        std::fprintf(stderr, "  thread %u: %s\n", i, where);
    }
}

// A thread of a warp in the order of the launch, and back.
unsigned in_order(unsigned warp, unsigned at) { return warp * 32 + (machine->reversed ? 31 - at : at); }

// The next thread of the warp that can run, from its `at`th in the order of the launch on. 32 is none.
unsigned next_thread(unsigned warp, unsigned at) {
    for (; at < 32; at++) {
        const Fiber& fiber = machine->fibers[in_order(warp, at)];
        if (!fiber.done && !fiber.waits) break;
    }
    return at;
}

// Goes on with the next thread of the warp that can run, or else with the host. A thread goes on with the next one by itself: the
// processor foresees where a switch ends if it ends where the last one did.
void switch_from(State& from, unsigned warp, unsigned at) {
    at = next_thread(warp, at);
    if (at == 32) return switch_to(from, machine->host);
    unsigned i = in_order(warp, at);
    machine->current = i;
    threadIdx = dim3(i, 0, 0);
    switch_to(from, machine->fibers[i].state);
}

// Goes on behind the thread that runs.
void switch_to_next() {
    unsigned own = machine->current;
    switch_from(machine->fibers[own].state, own / 32, in_order(0, own % 32) + 1);
}

void entry() {
    machine->thread(machine->argument);
    machine->fibers[machine->current].done = true;
    machine->unfinished--;
    switch_to_next();
    std::abort();  // a fiber that is done is never resumed
}

// Waits in the collective `name` until all `count` threads from `first` on do.
void wait_for_all(Collective& collective, const char* name, unsigned first, unsigned count) {
    if (collective.arrived == 0) {
        collective.name = name;
    } else if (collective.name != name && std::strcmp(collective.name, name) != 0) {
        fail("is reached while other threads wait in another collective", name);
    }
    if (++collective.arrived == count) {
        collective.arrived = 0;
        collective.round++;
        for (unsigned i = first; i < first + count; i++) machine->fibers[i].waits = nullptr;
        return;
    }
    machine->fibers[machine->current].waits = name;
    switch_to_next();
}

// Runs each thread of a warp that can run, until it waits or is done. Returns whether there was one.
bool run_warp(unsigned warp) {
    unsigned first = next_thread(warp, 0);
    if (first == 32) return false;
    switch_from(machine->host, warp, first);
    return true;
}

void run_block() {
    std::memset(machine->shared.data(), 0xff, machine->shared.size() * sizeof(uint4));
    unsigned char* guard =
        reinterpret_cast<unsigned char*>(machine->shared.data() + machine->shared.size()) - GUARD_BYTES;
    std::memset(guard, GUARD, GUARD_BYTES);
    for (unsigned i = 0; i < machine->threads; i++) {
        Fiber& fiber = machine->fibers[i];
        fiber.waits = nullptr;
        fiber.done = false;
        fiber.group = 0;
        fiber.copies.clear();
        prepare(fiber.state, fiber.stack.get(), entry);
    }
    // Each warp runs as far as it can before the next, so that warps without a barrier between them are as far apart as
    // possible.
    machine->unfinished = machine->threads;
    while (machine->unfinished > 0) {
        bool progress = false;
        for (unsigned at = 0; at < machine->threads / 32; at++) {
            unsigned warp = machine->reversed ? machine->threads / 32 - 1 - at : at;
            while (run_warp(warp)) progress = true;
        }
        if (!progress) fail("waits for threads that have left or wait in another collective", "a collective");
    }
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (guard[i] != GUARD) fail("was written behind its end", "shared memory");
    }
}

}  // namespace

void fail(const char* what, const char* where) {
    std::fprintf(stderr, "emulated device: %s %s (block %u %u %u)\n", where, what, blockIdx.x, blockIdx.y, blockIdx.z);
    report();
    std::abort();
}

const Slot* exchange(const char* name, const void* data, size_t bytes) {
    unsigned warp = machine->current / 32;
    Collective& collective = machine->warps[warp];
    Slot* slots = collective.slots[collective.round % 2];
    if (bytes > 0) std::memcpy(slots[machine->current % 32].bytes, data, bytes);
    wait_for_all(collective, name, warp * 32, 32);
    return slots;
}

void barrier(const char* name) { wait_for_all(machine->block, name, 0, machine->threads); }

unsigned char* shared_memory() { return reinterpret_cast<unsigned char*>(machine->shared.data()); }

void queue_copy(void* to, const void* from, int bytes) {
    Fiber& fiber = machine->fibers[machine->current];
    for (const Copy& copy : fiber.copies) {
        if (copy.to == to) fail("has the same destination as an unfinished copy", "copy_async");
    }
    fiber.copies.push_back({to, from, bytes, fiber.group});
}

void commit_copies() { machine->fibers[machine->current].group++; }

void finish_copies(int groups) {
    Fiber& fiber = machine->fibers[machine->current];
    size_t done = 0;
    while (done < fiber.copies.size() && fiber.copies[done].group < fiber.group - groups) {
        const Copy& copy = fiber.copies[done++];
        std::memcpy(copy.to, copy.from, copy.bytes);
    }
    fiber.copies.erase(fiber.copies.begin(), fiber.copies.begin() + done);
}

int run(const void* kernel, dim3 grid, unsigned threads, size_t shared, void (*thread)(const void*), const void* argument) {
    static thread_local Machine own;
    machine = &own;
    if (threads == 0 || threads % 32 != 0 || threads > MAX_THREADS) {
        fail("has an invalid number of threads", "a block");
    }
    if (grid.y > 65535 || grid.z > 65535) fail("is larger than CUDA allows", "a grid");
    machine->threads = threads;
    machine->thread = thread;
    machine->argument = argument;
    machine->warps.resize(threads / 32);
    while (machine->fibers.size() < threads) {
        machine->fibers.emplace_back();
        machine->fibers.back().stack.reset(new unsigned char[STACK_BYTES]);
    }
    machine->shared.resize((shared + 15) / 16 + GUARD_BYTES / 16);
    machine->reversed = machine->launches[kernel]++ % 2 == 1;
    gridDim = grid;
    blockDim = dim3(threads);
    unsigned blocks = grid.x * grid.y * grid.z;
    for (unsigned at = 0; at < blocks; at++) {
        unsigned block = machine->reversed ? blocks - 1 - at : at;
        blockIdx = dim3(block % grid.x, block / grid.x % grid.y, block / grid.x / grid.y);
        run_block();
    }
    return 0;
}

float half_to_float(uint16_t bits) {
    // Shifts the 15 low bits into place and multiplies by 2^112 to correct the exponent: exact, also for subnormals.
    uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
    float value;
    std::memcpy(&value, &magnitude, 4);
    value *= 0x1p112f;
    uint32_t out;
    std::memcpy(&out, &value, 4);
    if ((bits & 0x7c00) == 0x7c00) out |= 0x7f800000;
    out |= static_cast<uint32_t>(bits & 0x8000) << 16;
    std::memcpy(&value, &out, 4);
    return value;
}

uint16_t float_to_half(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return static_cast<uint16_t>(sign | 0x7fff);  // NaN, with the device's bits
    if (bits >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);   // 65520 and more round to infinity
    if (bits < 0x38800000) {
        // Below 2^-14: the last bit of the sum with 1/2 is the half's last bit, so that the addition rounds.
        float magnitude;
        std::memcpy(&magnitude, &bits, 4);
        magnitude += 0.5f;
        std::memcpy(&bits, &magnitude, 4);
        return static_cast<uint16_t>(sign | (bits - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return static_cast<uint16_t>(sign | (bits - 0x38000000) >> 13);
}

namespace {

float half_at(uint32_t pair, int which) { return half_to_float(static_cast<uint16_t>(pair >> 16 * which)); }

void load_rows(uint32_t (&to)[4], const void* row, bool transposed) {
    check_aligned(row, 16, "ldmatrix");
    const Slot* slots = exchange("ldmatrix", &row, sizeof row);
    int i = lane_id();
    for (int matrix = 0; matrix < 4; matrix++) {
        uint16_t pair[2];
        for (int which = 0; which < 2; which++) {
            int r = transposed ? i % 4 * 2 + which : i / 4;
            int c = transposed ? i / 4 : i % 4 * 2 + which;
            const unsigned char* from;
            std::memcpy(&from, slots[matrix * 8 + r].bytes, sizeof from);
            std::memcpy(&pair[which], from + 2 * c, 2);
        }
        to[matrix] = pair[0] | static_cast<uint32_t>(pair[1]) << 16;
    }
}

}  // namespace
}  // namespace emulator

void load_matrices(uint32_t (&to)[4], const void* row) { emulator::load_rows(to, row, false); }
void load_matrices_transposed(uint32_t (&to)[4], const void* row) { emulator::load_rows(to, row, true); }

void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    // The halves of a thread's fragments. Of a, fragments 0 and 2 are the low rows at k and k + 8, 1 and 3 the high rows.
    struct Fragments {
        float a[4][2], b[2][2];
    } own;
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 4; i++) own.a[i][half] = emulator::half_at(a[i], half);
        own.b[0][half] = emulator::half_at(b0, half);
        own.b[1][half] = emulator::half_at(b1, half);
    }
    const emulator::Slot* slots = emulator::exchange("mma", &own, sizeof own);
    auto fragments = [&](int lane) { return reinterpret_cast<const Fragments*>(slots[lane].bytes); };
    int g = emulator::lane_id() / 4, t = emulator::lane_id() % 4;
    for (int i = 0; i < 4; i++) {
        int column = 2 * t + i % 2;
        for (int k = 0; k < 4; k++) {
            const Fragments *left = fragments(4 * g + k), *right = fragments(4 * column + k);
            for (int half = 0; half < 2; half++) {
                c[i] += left->a[i / 2][half] * right->b[0][half];
                c[i] += left->a[i / 2 + 2][half] * right->b[1][half];
            }
        }
    }
}
