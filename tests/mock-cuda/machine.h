// A mock of a GPU, for tests of CUDA calls on machines without one. runtime.cpp takes the place of CUDA's runtime
// library; this is what it drives: memory, streams, recordings (CUDA graphs) and faults. launches.cpp emulates the
// kernels.
//
// - Work on a stream is queued and runs only when the host waits for it, so that code that does not wait reads old
//   data. With LONGHAND_MOCK_EAGER=1 it runs at once, so that code that reuses memory too early overwrites data still
//   in use.
// - The device's memory is accessible only while queued work runs: a host that uses an address of the device dies of
//   it. Freed memory is never accessible again.
// - Kernels compute nothing. Behind each launch launches.cpp queues work that computes the same on the host. With
//   LONGHAND_MOCK_IDLE=1 nothing is computed or copied, and all reads give 0, so that models of any size take no
//   time.
// - A use of CUDA that is forbidden or undefined, as far as it is checked here, ends the process with a line that
//   begins with `mock CUDA:`.
//
// More variables of the environment:
// - LONGHAND_MOCK_MEMORY: MiB of the GPU (24564).
// - LONGHAND_MOCK_DRIVER: CUDA version of the driver, 0 for none (the toolkit's).
// - LONGHAND_MOCK_GPUS: number of GPUs (1).
// - LONGHAND_MOCK_REFUSE: number of the first allocation that fails, from 1; all later ones fail too.
// - LONGHAND_MOCK_LOSE: number of the launch at which the GPU is lost, from 1.
// - LONGHAND_MOCK_REPORT=1: at exit prints peak memory and numbers of calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace mock {

// CUDA's error number for a GPU that stopped in the middle of a kernel.
constexpr int LAUNCH_FAILURE = 719;

[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// A number from the environment.
long long setting(const char* name, long long otherwise);

// ---- Memory

enum class Kind { Device, Pinned };

// Null if there is not enough memory, or LONGHAND_MOCK_REFUSE says so.
void* allocate(Kind kind, size_t bytes);
void release(Kind kind, void* at);

// Whether all of a range is memory of that kind. A range that lies partly in freed or other memory is a failure.
bool is(Kind kind, const void* at, size_t bytes, const char* what);

// The address at which the host may access the device's memory at `at` while the device's addresses are inaccessible.
void* host_alias(const void* at);
// For queued work: makes the device's addresses accessible until the work that runs now has ended.
void open();

size_t total_memory();
size_t free_memory();

struct Stream;
struct Event;

// The stream that launches of this thread go to while they are emulated, otherwise null. Copies and fills inside the
// device that are part of such a launch do nothing. Memory allocated meanwhile is ggml's pool: once it is freed,
// recordings of the stream are stale.
extern thread_local Stream* emulated;

// ---- Streams

using Work = std::shared_ptr<const std::function<void()>>;

struct Recording {
    std::vector<Work> works;
    Stream*           stream;
    bool              stale;
};

Stream* make_stream(bool blocking);
void end_stream(Stream* stream);
// The stream of CUDA's handle; knows the special values.
Stream* stream_of(const void* handle);

// Puts work at the end of a stream. `launch`: counts as a launch for LONGHAND_MOCK_LOSE.
void enqueue(Stream* stream, std::function<void()> work, bool launch = false);
void enqueue(Stream* stream, const Recording& recording);

// These run what was queued and return CUDA's error; `what` is the caller's name.
int wait(Stream* stream, const char* what);
int wait(Event* event, const char* what);
int wait_all(const char* what);

void begin_recording(Stream* stream);
Recording end_recording(Stream* stream);
bool is_recording(const Stream* stream);
// A copy of a recording that can be started.
Recording* make_executable(const Recording& recording);
void end_executable(Recording* recording);

Event* make_event();
void end_event(Event* event);
void record(Event* event, Stream* stream);
void wait_for_event(Stream* stream, Event* event);

// Whether the GPU was lost and a call has reported it: from then on all calls that touch the GPU fail.
bool lost();

// Counts a copy for the report.
void count_copy(size_t bytes, bool to_host);
bool idle();

}  // namespace mock
