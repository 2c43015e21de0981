// One step of a thread that waits for other threads of ggml's pool, instead of a pause instruction.
//
// ggml's threads meet after every operation, some hundred times a token, and spin while they wait. That is fastest as
// long as each thread has a processor of its own. With more threads than processors, or beside other busy programs, a
// waiting thread spins away the time that the thread it waits for needs, and each meeting lasts as long as the
// scheduler lets a thread run: some milliseconds.
//
// So a wait has stages. It begins with pauses. A longer wait yields the processor in each step: where nobody else wants
// it, the call returns at once and little is lost. Where another thread of the pool wants it, that thread is what the
// wait is for. But a thread of a busy program keeps the processor for long; then the next waits sleep instead, and the
// scheduler gives a thread that slept the processor as soon as it wakes up. Windows sleeps for a millisecond or more, longer
// than most waits last; there a wait only yields.
#include <stdint.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <sched.h>
#include <time.h>
#endif

#include "relax.h"

#define US INT64_C(1000)

enum {
    // Waits that sleep after a yield took long. Then a yield is tried again.
    SLEEPING_WAITS = 1000,
};
// Nanoseconds without a step after which a step begins a new wait.
static const int64_t NEW_WAIT = 2 * US;
// Nanoseconds of a wait before the first yield or sleep.
static const int64_t SPIN = 10 * US;
// Nanoseconds of a sleep. The kernel adds about 50 microseconds.
static const int64_t SLEEP = 10 * US;
// Nanoseconds of a yield that is called long: longer than an operation of another thread of the pool.
static const int64_t LONG_YIELD = 500 * US;

// What a thread knows of its waits. Times are in nanoseconds.
static _Thread_local struct {
    int64_t start;       // of this wait
    int64_t last;        // end of the last step
    int sleeping_waits;  // that are left
} waiting;

static int64_t now(void) {
#ifdef _WIN32
    LARGE_INTEGER ticks, per_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&per_second);
    int64_t seconds = ticks.QuadPart / per_second.QuadPart;
    int64_t rest = ticks.QuadPart % per_second.QuadPart;
    return seconds * 1000 * 1000 * US + rest * 1000 * 1000 * US / per_second.QuadPart;
#else
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 * 1000 * US + time.tv_nsec;
#endif
}

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

void longhand_relax(void) {
    pause_briefly();
    int64_t time = now();
    if (time - waiting.last > NEW_WAIT) {
        waiting.start = time;
        if (waiting.sleeping_waits > 0) waiting.sleeping_waits--;
    }
    waiting.last = time;
    if (time - waiting.start < SPIN) return;
#ifdef _WIN32
    SwitchToThread();
    waiting.last = now();
#else
    if (waiting.sleeping_waits > 0) {
        nanosleep(&(struct timespec){.tv_nsec = SLEEP}, NULL);
        waiting.last = now();
    } else {
        sched_yield();
        waiting.last = now();
        if (waiting.last - time > LONG_YIELD) waiting.sleeping_waits = SLEEPING_WAITS;
    }
#endif
}
