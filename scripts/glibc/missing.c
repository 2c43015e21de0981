// What our C++ code and GCC's libstdc++.a refer to where they are compiled on a newer system, and glibc 2.28 lacks.
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

// Whether there is one thread (glibc 2.32). Where this says no, counters are changed atomically, which is always right.
HIDDEN char __libc_single_threaded = 0;

// glibc 2.36.
HIDDEN uint32_t arc4random(void) {
    uint32_t number;
    while (getrandom(&number, sizeof number, 0) != sizeof number) {}
    return number;
}

// glibc 2.29. ggml asks it for the NUMA node.
HIDDEN int getcpu(unsigned * cpu, unsigned * node) {
    return (int) syscall(SYS_getcpu, cpu, node, 0);
}
