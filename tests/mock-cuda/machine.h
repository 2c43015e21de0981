// A GPU that is not there, for tests of everything that is said to CUDA (ARCHITECTURE.md, "Devices"). The runtime library in
// runtime.cpp takes the place of NVIDIA's; here is what it drives: memory, streams, recordings and faults.
//
// - Work on a stream is queued and carried out only when the host waits for it, so that whoever does not wait reads what was there
//   before. LONGHAND_MOCK_EAGER=1: at once, so that whoever waits too late overwrites what is still needed.
// - The device's memory cannot be touched while no work is carried out: a host that uses a device's address dies of it. Freed memory
//   can never be touched again.
// - Kernels compute nothing. What they should have computed is put behind them by longhand_mock_follow: the same work by the host's
//   code. LONGHAND_MOCK_IDLE=1: that is not done either, nothing is moved, and what is read is 0; any size of model then takes no time.
// - What CUDA forbids or leaves undefined, as far as it is looked at here, ends the process with a line that begins with `mock CUDA:`.
//
// More of the environment: LONGHAND_MOCK_MEMORY (MiB of the GPU, 24564), LONGHAND_MOCK_DRIVER (the CUDA version of the driver, that of
// the toolkit; 0: there is none), LONGHAND_MOCK_GPUS (1), LONGHAND_MOCK_REFUSE (the number of the first allocation that fails, from 1;
// all after it fail too), LONGHAND_MOCK_LOSE (the number of the launch that kills the GPU, from 1), LONGHAND_MOCK_REPORT=1 (says at the
// end what was used).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace mock {

// What CUDA says when the GPU stops in the middle of a kernel.
constexpr int LAUNCH_FAILURE = 719;

[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// A number from the environment.
long long setting(const char* name, long long otherwise);

// ---- Memory

enum class Kind { Device, Pinned };

// Null where there is not enough, or LONGHAND_MOCK_REFUSE says so.
void* allocate(Kind kind, size_t bytes);
void release(Kind kind, void* at);

// Whether all of a range is of that kind. What lies partly in freed or other memory is a failure.
bool is(Kind kind, const void* at, size_t bytes, const char* what);

// The device's memory as the host may touch it while it must not touch the device's addresses.
void* door(const void* at);
// For work on a stream: lets the device's addresses be touched until what is carried out now has ended.
void open();

size_t total_memory();
size_t free_memory();

struct Stream;
struct Event;

// The stream on which ggml is launching what follow() will repeat, or null: its copies and fills inside the device are not carried
// out, and when it gives up what it allocates meanwhile, no recording of that stream may be started any more.
extern thread_local Stream* followed;

// ---- Streams

using Work = std::shared_ptr<const std::function<void()>>;

struct Recording {
    std::vector<Work> works;
    Stream*           stream;
    bool              stale;
};

Stream* make_stream(bool blocking);
void end_stream(Stream* stream);
// From CUDA's handle, whose special values it knows.
Stream* stream_of(const void* handle);

// Puts work at the end of a stream. `launch`: it counts as one, for LONGHAND_MOCK_LOSE.
void enqueue(Stream* stream, std::function<void()> work, bool launch = false);
void enqueue(Stream* stream, const Recording& recording);

// Carry out what was queued; `what` is the caller's name. They give CUDA's error.
int wait(Stream* stream, const char* what);
int wait(Event* event, const char* what);
int wait_all(const char* what);

void begin_recording(Stream* stream);
Recording end_recording(Stream* stream);
bool is_recording(const Stream* stream);
// A recording that can be started.
Recording* make_ready(const Recording& recording);
void end_ready(Recording* recording);

Event* make_event();
void end_event(Event* event);
void record(Event* event, Stream* stream);
void follow_event(Stream* stream, Event* event);

// Whether the GPU was lost and somebody has seen it: whatever touches it fails from then on.
bool lost();

// For the report.
void count_copy(size_t bytes, bool to_host);
bool idle();

}  // namespace mock
