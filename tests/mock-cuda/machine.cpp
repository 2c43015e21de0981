#include "machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <set>

namespace mock {

thread_local Stream* emulated = nullptr;

void fail(const char* format, ...) {
    std::fputs("mock CUDA: ", stderr);
    va_list arguments;
    va_start(arguments, format);
    std::vfprintf(stderr, format, arguments);
    va_end(arguments);
    std::fputc('\n', stderr);
    std::abort();
}

long long setting(const char* name, long long otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::atoll(value) : otherwise;
}

bool idle() {
    static const bool is_idle = setting("LONGHAND_MOCK_IDLE", 0) != 0;
    return is_idle;
}

struct Stream {
    bool             blocking;
    std::deque<Work> queue;
    uint64_t         started     = 0;  // number of works taken from the queue so far
    Recording*       recording = nullptr;
};

struct Event {
    Stream*  stream = nullptr;
    uint64_t after  = 0;  // number of works of the stream that are waited for
};

namespace {

constexpr size_t PAGE = 4096;
// Bytes that a driver takes once a program uses the GPU.
constexpr size_t CONTEXT = size_t{300} << 20;

struct Block {
    size_t         bytes;
    size_t         mapped;
    Kind           kind;
    unsigned char* host_alias;  // the same memory at an address that is always accessible; null for pinned memory
    Stream*        pool_of;     // the stream whose launch allocated it, otherwise null
    bool           live;
};

struct Machine {
    std::recursive_mutex       mutex;
    std::map<uintptr_t, Block> blocks;
    std::set<Stream*>          streams;
    std::set<Recording*>       recordings;  // executable ones
    Stream                     legacy{ true, {}, 0, nullptr };
    size_t                     used = 0, peak = 0, in_pool = 0, peak_in_pool = 0;
    unsigned long long         allocations = 0, launches = 0, waits = 0;
    unsigned long long         copies[2] = {}, copied[2] = {};
    int                        running = 0;
    bool                       open = false;    // the device's memory is accessible
    bool                       doomed = false;  // the GPU is lost and no call has reported it
    bool                       lost = false;
};

// Never freed: work still runs while the process ends.
Machine& machine() {
    static Machine& the = *new Machine;
    return the;
}

void report() {
    const Machine& m   = machine();
    const auto     mib = [](size_t bytes) { return bytes / 1048576.0; };
    std::fprintf(stderr,
                 "mock CUDA: %.1f MiB at most, %.1f at most of it ggml's pool; %llu allocations, %llu launches, %llu waits, "
                 "%llu copies to the device (%.1f MiB), %llu to the host (%.1f MiB)\n",
                 mib(m.peak), mib(m.peak_in_pool), m.allocations, m.launches, m.waits, m.copies[0], mib(m.copied[0]),
                 m.copies[1], mib(m.copied[1]));
}

using Lock = std::lock_guard<std::recursive_mutex>;

void protect(int how) {
    for (const auto& [at, block] : machine().blocks) {
        if (block.live && block.kind == Kind::Device && mprotect(reinterpret_cast<void*>(at), block.mapped, how) != 0) {
            fail("cannot change the protection of %zu bytes", block.mapped);
        }
    }
}

void run_queue(Stream* stream, uint64_t up_to) {
    Machine& m = machine();
    if (stream->queue.empty() || stream->started >= up_to) {
        return;
    }
    m.running++;
    while (!stream->queue.empty() && stream->started < up_to) {
        Work work = stream->queue.front();
        stream->queue.pop_front();
        stream->started++;
        (*work)();
    }
    if (--m.running == 0 && m.open) {
        protect(PROT_NONE);
        m.open = false;
    }
}

void count_launch() {
    Machine&               m    = machine();
    static const long long lose = setting("LONGHAND_MOCK_LOSE", 0);
    m.launches++;
    m.doomed |= lose > 0 && m.launches >= static_cast<unsigned long long>(lose);
}

int end_of_wait() {
    machine().lost = machine().doomed;
    return machine().lost ? LAUNCH_FAILURE : 0;
}

void put(Stream* stream, Work work) {
    stream->queue.push_back(std::move(work));
    static const bool eager = setting("LONGHAND_MOCK_EAGER", 0) != 0;
    if (eager) {
        run_queue(stream, UINT64_MAX);
    }
}

}  // namespace

size_t total_memory() { return static_cast<size_t>(setting("LONGHAND_MOCK_MEMORY", 24564)) << 20; }

size_t free_memory() {
    Lock   lock(machine().mutex);
    size_t taken = machine().used + CONTEXT;
    return taken < total_memory() ? total_memory() - taken : 0;
}

void* allocate(Kind kind, size_t bytes) {
    Machine& m = machine();
    Lock     lock(m.mutex);
    static const bool reports = setting("LONGHAND_MOCK_REPORT", 0) != 0 && std::atexit(report) == 0;
    (void) reports;
    if (m.running > 0) {
        fail("memory is allocated by work on a stream");
    }
    static const long long refused = setting("LONGHAND_MOCK_REFUSE", 0);
    if (kind == Kind::Device) {
        m.allocations++;
        if ((refused > 0 && m.allocations >= static_cast<unsigned long long>(refused)) || bytes > free_memory()) {
            return nullptr;
        }
    }
    size_t mapped = (bytes + PAGE - 1) / PAGE * PAGE;
    // An inaccessible page follows.
    void*          at   = mmap(nullptr, mapped + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    unsigned char* alias = nullptr;
    bool           there = at != MAP_FAILED;
    if (kind == Kind::Pinned) {
        there = there && mprotect(at, mapped, PROT_READ | PROT_WRITE) == 0;
    } else if (!idle()) {
        int   file  = memfd_create("mock", 0);
        void* other = MAP_FAILED;
        if (there && file >= 0 && ftruncate(file, mapped) == 0 &&
            mmap(at, mapped, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED) {
            other = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        }
        there = other != MAP_FAILED;
        if (there) {
            close(file);
            // Filled with NaN: the memory of a GPU is not cleared.
            alias = static_cast<unsigned char*>(other);
            std::fill(alias, alias + mapped, 0xff);
        }
    }
    if (!there) {
        fail("the host cannot map %zu bytes", mapped);
    }
    m.blocks[reinterpret_cast<uintptr_t>(at)] = { bytes, mapped, kind, alias, emulated, true };
    if (kind == Kind::Device) {
        m.used += mapped;
        m.peak = std::max(m.peak, m.used);
        m.in_pool += emulated != nullptr ? mapped : 0;
        m.peak_in_pool = std::max(m.peak_in_pool, m.in_pool);
    }
    return at;
}

void release(Kind kind, void* at) {
    if (at == nullptr) {
        return;
    }
    Machine& m = machine();
    Lock     lock(m.mutex);
    auto     found = m.blocks.find(reinterpret_cast<uintptr_t>(at));
    if (found == m.blocks.end() || !found->second.live || found->second.kind != kind) {
        fail("%p is freed but was not allocated, or is freed twice", at);
    }
    Block& block = found->second;
    // CUDA waits for all work.
    for (Stream* stream : m.streams) {
        run_queue(stream, UINT64_MAX);
    }
    if (kind == Kind::Device) {
        for (Recording* recording : m.recordings) {
            recording->stale |= block.pool_of != nullptr && block.pool_of == recording->stream;
        }
        m.used -= block.mapped;
        m.in_pool -= block.pool_of != nullptr ? block.mapped : 0;
    }
    block.live = false;
    if (block.host_alias != nullptr) {
        munmap(block.host_alias, block.mapped);
    }
    // The pages are freed, the addresses are never used again.
    if (mmap(at, block.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
        fail("cannot free %zu bytes", block.bytes);
    }
}

bool is(Kind kind, const void* at, size_t bytes, const char* what) {
    Machine&  m = machine();
    Lock      lock(m.mutex);
    uintptr_t begin = reinterpret_cast<uintptr_t>(at);
    auto      next  = m.blocks.upper_bound(begin);
    if (next == m.blocks.begin()) {
        return false;
    }
    const auto& [start, block] = *std::prev(next);
    if (begin >= start + block.mapped) {
        return false;
    }
    if (!block.live) {
        fail("%s: %p was freed", what, at);
    }
    if (begin + bytes > start + block.bytes) {
        fail("%s: %zu bytes at %zu of an allocation of %zu", what, bytes, begin - start, block.bytes);
    }
    return block.kind == kind;
}

void* host_alias(const void* at) {
    uintptr_t begin           = reinterpret_cast<uintptr_t>(at);
    const auto& [start, block] = *std::prev(machine().blocks.upper_bound(begin));
    return block.host_alias + (begin - start);
}

void open() {
    if (!machine().open) {
        protect(PROT_READ | PROT_WRITE);
        machine().open = true;
    }
}

Stream* make_stream(bool blocking) {
    Lock    lock(machine().mutex);
    Stream* stream = new Stream{ blocking, {}, 0, nullptr };
    machine().streams.insert(stream);
    return stream;
}

void end_stream(Stream* stream) {
    Lock lock(machine().mutex);
    if (machine().streams.count(stream) == 0 || stream->recording != nullptr) {
        fail("a stream is destroyed that does not exist, or is being recorded");
    }
    run_queue(stream, UINT64_MAX);
    machine().streams.erase(stream);
    delete stream;
}

Stream* stream_of(const void* handle) {
    Machine& m = machine();
    Lock     lock(m.mutex);
    uintptr_t number = reinterpret_cast<uintptr_t>(handle);
    if (number <= 1) {
        return &m.legacy;
    }
    if (number == 2) {
        static thread_local Stream* own = make_stream(true);
        return own;
    }
    Stream* stream = static_cast<Stream*>(const_cast<void*>(handle));
    if (m.streams.count(stream) == 0) {
        fail("%p is not a stream", handle);
    }
    return stream;
}

void enqueue(Stream* stream, std::function<void()> work, bool launch) {
    Machine& m = machine();
    Lock     lock(m.mutex);
    if (m.running > 0) {
        fail("CUDA is called by work on a stream");
    }
    Work kept = std::make_shared<const std::function<void()>>(std::move(work));
    if (stream->recording != nullptr) {
        stream->recording->works.push_back(std::move(kept));
        return;
    }
    if (launch) {
        count_launch();
    }
    if (stream == &m.legacy) {
        // The default stream waits for the blocking streams, and they for it.
        for (Stream* other : m.streams) {
            if (other->blocking && other->recording != nullptr) {
                fail("work on the default stream while a stream that waits for it is being recorded");
            }
            if (other->blocking) {
                run_queue(other, UINT64_MAX);
            }
        }
        put(stream, std::move(kept));
        run_queue(stream, UINT64_MAX);
        return;
    }
    put(stream, std::move(kept));
}

void enqueue(Stream* stream, const Recording& recording) {
    Lock lock(machine().mutex);
    if (stream->recording != nullptr) {
        fail("a recording is started on a stream that is being recorded");
    }
    if (recording.stale) {
        fail("a recording is started that uses memory which ggml has freed");
    }
    count_launch();
    for (const Work& work : recording.works) {
        put(stream, work);
    }
}

int wait(Stream* stream, const char* what) {
    Lock lock(machine().mutex);
    if (stream->recording != nullptr) {
        fail("%s on a stream that is being recorded", what);
    }
    machine().waits++;
    run_queue(stream, UINT64_MAX);
    return end_of_wait();
}

int wait(Event* event, const char* what) {
    Lock lock(machine().mutex);
    // The work of a stream was done before it ended.
    if (machine().streams.count(event->stream) == 0) {
        return end_of_wait();
    }
    if (event->stream->recording != nullptr) {
        fail("%s of a stream that is being recorded", what);
    }
    machine().waits++;
    run_queue(event->stream, event->after);
    return end_of_wait();
}

int wait_all(const char* what) {
    Lock lock(machine().mutex);
    machine().waits++;
    for (Stream* stream : machine().streams) {
        if (stream->recording != nullptr) {
            fail("%s while a stream is being recorded", what);
        }
        run_queue(stream, UINT64_MAX);
    }
    return end_of_wait();
}

void begin_recording(Stream* stream) {
    Lock lock(machine().mutex);
    if (stream == &machine().legacy || stream->recording != nullptr) {
        fail("a recording begins on the default stream, or on one that is being recorded");
    }
    stream->recording = new Recording{ {}, stream, false };
}

Recording end_recording(Stream* stream) {
    Lock lock(machine().mutex);
    if (stream->recording == nullptr) {
        fail("a recording ends that did not begin");
    }
    Recording recording = std::move(*stream->recording);
    delete stream->recording;
    stream->recording = nullptr;
    return recording;
}

Recording* make_executable(const Recording& recording) {
    Lock lock(machine().mutex);
    return *machine().recordings.insert(new Recording(recording)).first;
}

void end_executable(Recording* recording) {
    Lock lock(machine().mutex);
    machine().recordings.erase(recording);
    delete recording;
}

bool is_recording(const Stream* stream) {
    Lock lock(machine().mutex);
    return stream->recording != nullptr;
}

Event* make_event() { return new Event; }

void end_event(Event* event) { delete event; }

void record(Event* event, Stream* stream) {
    Lock lock(machine().mutex);
    if (stream->recording != nullptr) {
        fail("events in recordings are not supported by the mock");
    }
    event->stream = stream;
    event->after  = stream->started + stream->queue.size();
}

void wait_for_event(Stream* stream, Event* event) {
    if (is_recording(stream)) {
        fail("events in recordings are not supported by the mock");
    }
    Stream*  other = event->stream;
    uint64_t after = event->after;
    if (other != nullptr && other != stream) {
        enqueue(stream, [other, after] {
            if (machine().streams.count(other) > 0) {
                run_queue(other, after);
            }
        });
    }
}

bool lost() {
    Lock lock(machine().mutex);
    return machine().lost;
}

void count_copy(size_t bytes, bool to_host) {
    Lock lock(machine().mutex);
    machine().copies[to_host]++;
    machine().copied[to_host] += bytes;
}

}  // namespace mock
